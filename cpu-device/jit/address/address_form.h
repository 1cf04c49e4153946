// SPDX-License-Identifier: Apache-2.0
// What can be said of addresses from PTX alone: how they hang on the thread and on each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
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
  bool ByThread(ptx::RegisterId reg) const { return facts_[reg].by_thread; }
  // How far a loop has come, or what was found in memory.
  bool IsStep(const AddressForm::Symbol& symbol) const {
    return IsAdvance(symbol) || IsFetched(symbol);
  }
  bool IsFetched(const AddressForm::Symbol& symbol) const;
  // Bytes that a loop goes on by each time; 0: not the same number each time.
  int64_t StepOf(const AddressForm::Symbol& symbol) const;
  // A number that is not above the one that it was made of, as t & ~31 or t / 32.
  bool RoundsDown(const AddressForm::Symbol& symbol) const;
  // The thread's number, a part of it (its lane, its warp), or what a function made of it.
  bool IsPlace(const AddressForm::Symbol& symbol) const;
  // Hangs on the block's number.
  bool ByBlock(const AddressForm::Symbol& symbol) const;
  // Computed from a value that a loop doubles, halves or scales otherwise.
  bool ByScaledLoop(const ptx::Operand& operand) const;
  // Bits, one for each parameter, variable or loaded pointer that it may lie behind; from the 64th
  // on they share one.
  uint64_t Roots(const ptx::Operand& operand) const;
  // Of the pointers that a call is given, and of variables that its function names itself.
  uint64_t RootsOfCall(const ptx::Instruction& call) const;
  // Of the variables in shared memory among those roots.
  uint64_t SharedRoots() const { return shared_; }

 private:
  struct Facts {
    bool by_thread = false, by_block = false, scaled = false;
    uint64_t roots = 0;
  };
  bool IsAdvance(const AddressForm::Symbol& symbol) const;
  void CountDefinitions();
  void FindSlots();
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
  Facts Given(const ptx::Instruction& call) const;
  bool SpreadToSlots(const ptx::Instruction& instruction);
  bool IsParameter(const ptx::Instruction& instruction) const;
  AddressForm::Symbol Fetched(const ptx::Instruction& load) const;

  const ptx::Function& function_;
  std::vector<Facts> facts_;                         // by register, as the others
  std::vector<uint32_t> definitions_;                // instructions that write it
  std::vector<bool> fetched_;                        // from memory
  std::vector<bool> rounds_, given_;                 // down; by a call
  std::vector<int64_t> steps_;                       // 0: none, or not the same each time
  std::vector<std::unique_ptr<AddressForm>> known_;  // null: a symbol of its own
  std::map<AddressForm::Symbol, uint64_t> bits_;
  uint64_t shared_ = 0;
  std::unordered_map<const ptx::Variable*, Facts> slots_;  // of calls
};

}  // namespace farcall::cpu_device::jit
