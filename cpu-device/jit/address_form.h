// SPDX-License-Identifier: Apache-2.0
// What can be said of addresses from PTX alone: how they hang on the thread and on each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::jit {

// A sum of symbols times numbers, and a number. A symbol is a register that nothing is known of, a
// special register, a parameter or a variable. Conversions count as exact, and so do sums: what
// would overflow is taken for what it would be without.
struct AddressForm {
  using Symbol = std::pair<const void*, uint64_t>;
  std::map<Symbol, int64_t> terms;  // no zeros
  int64_t constant = 0;

  // The factor of %tid.x, taken out of the terms.
  int64_t TakeThread();
};

// Of a function's registers. Takes time in proportion to its length.
class AddressForms {
 public:
  explicit AddressForms(const ptx::Function& function);

  AddressForm Of(const ptx::Operand& operand) const;
  // A form of which a symbol is computed from the thread's place, other than by %tid.x as a term.
  bool IsTangled(const AddressForm& form) const;
  // Of a form, what hangs on the thread, %tid.x as a term too. False: on a register that is written
  // in several places, of which nothing can be said.
  bool ThreadPart(const AddressForm& form, AddressForm* part) const;
  // Computed from the thread's place in its block or warp.
  bool ByThread(const ptx::Operand& operand) const;
  // Computed from a value that a loop doubles, halves or scales otherwise.
  bool ByScaledLoop(const ptx::Operand& operand) const;
  // Bits, one for each parameter, variable or loaded pointer that it may lie behind; from the 64th
  // on they share one.
  uint64_t Roots(const ptx::Operand& operand) const;

 private:
  struct Facts {
    bool by_thread = false, scaled = false;
    uint64_t roots = 0;
  };
  void CountDefinitions();
  void FindForms();
  void FindAdvancing();
  void FindScaledLoops();
  void Spread();
  size_t Index(const ptx::Instruction& instruction) const {
    return static_cast<size_t>(&instruction - function_.body.data());
  }
  bool Evaluate(const ptx::Instruction& instruction, AddressForm* form) const;
  Facts Results(const ptx::Instruction& instruction) const;
  Facts Read(const ptx::Operand& operand) const;

  const ptx::Function& function_;
  std::vector<Facts> facts_;                         // by register, as the others
  std::vector<uint32_t> definitions_;                // instructions that write it
  std::vector<std::unique_ptr<AddressForm>> known_;  // null: a symbol of its own
  std::map<AddressForm::Symbol, uint64_t> bits_;
};

}  // namespace farcall::cpu_device::jit
