// SPDX-License-Identifier: Apache-2.0
// What an instruction is to whoever follows addresses through registers.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cpu-device/jit/address/address_form.h"

namespace farcall::cpu_device::jit {

inline AddressForm::Symbol OfVariable(const ptx::Operand& operand) {
  return {operand.variable, 0};
}

inline bool IsThread(ptx::SpecialRegister special) {
  return special == ptx::SpecialRegister::kTidX || special == ptx::SpecialRegister::kLaneid;
}

inline bool IsOfParams(const ptx::Instruction& instruction) {
  return instruction.mods.space == ptx::Space::kParam && !instruction.operands.empty();
}

// Of a function that reads the thread's place by itself.
inline bool AsksForThread(const ptx::Function* function) {
  return function && std::any_of(function->body.begin(), function->body.end(),
                                 [](const ptx::Instruction& each) {
                                   return each.operands.size() > 1 &&
                                          IsThread(each.operands[1].special);
                                 });
}

// Its result is what others may have left somewhere.
inline bool Fetches(const ptx::Instruction& instruction) {
  switch (instruction.opcode) {
    case ptx::Opcode::kLd:
    case ptx::Opcode::kLdu:
    case ptx::Opcode::kAtom:
    case ptx::Opcode::kShfl:
    case ptx::Opcode::kCall:
      return true;
    default:
      return false;
  }
}

template <typename Visit>
void ForRegisters(const ptx::Operand& operand, const Visit& visit) {
  if (operand.reg != ptx::kNoRegister) visit(operand.reg);
  for (const ptx::Operand& element : operand.elements) ForRegisters(element, visit);
}

template <typename Visit>
void ForResults(const ptx::Instruction& instruction, const Visit& visit) {
  if (instruction.operands.empty() || instruction.operands[0].Is(ptx::Operand::Kind::kAddress))
    return;
  ForRegisters(instruction.operands[0], visit);
  ForRegisters(instruction.second_dst, visit);
}

// The first of its operands that goes into the result unscaled, so that what lies there does too.
inline size_t FirstSummand(const ptx::Instruction& instruction) {
  switch (instruction.opcode) {
    case ptx::Opcode::kMov:
    case ptx::Opcode::kCvt:
    case ptx::Opcode::kCvta:
    case ptx::Opcode::kAdd:
    case ptx::Opcode::kSub:
    case ptx::Opcode::kSelp:
      return 1;
    case ptx::Opcode::kMad:
      return 3;
    default:
      return ~size_t{0};
  }
}

}  // namespace farcall::cpu_device::jit
