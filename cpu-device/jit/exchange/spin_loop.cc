// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/spin_loop.h"

#include <unordered_set>

namespace farcall::cpu_device::jit {
namespace {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;

// Registers whose value came, at last, from where a loop looks.
class Tainted {
 public:
  bool Reads(const Operand& operand) const {
    if (operand.reg != ptx::kNoRegister && registers_.count(operand.reg)) return true;
    for (const Operand& element : operand.elements)
      if (Reads(element)) return true;
    return false;
  }
  bool Guards(const Instruction& instruction) const {
    return instruction.guard != ptx::kNoRegister && registers_.count(instruction.guard);
  }
  // True if it was not yet.
  bool Add(const Operand& destination) {
    bool added = false;
    if (destination.Is(Operand::Kind::kRegister)) added = registers_.insert(destination.reg).second;
    if (destination.Is(Operand::Kind::kVector))
      for (const Operand& element : destination.elements) added |= Add(element);
    return added;
  }
  bool AddResults(const Instruction& instruction) {
    const bool added = !instruction.operands.empty() && Add(instruction.operands[0]);
    return Add(instruction.second_dst) || added;
  }

 private:
  std::unordered_set<ptx::RegisterId> registers_;
};

bool IsStrongLoad(const Instruction& instruction) {
  return instruction.Is(Opcode::kLd) && instruction.mods.semantics > ptx::Semantics::kWeak;
}

// What memory gave it: others may have put it there.
bool ComesFromOthers(const Instruction& instruction) {
  if (instruction.Is(Opcode::kAtom)) return true;
  return instruction.Is(Opcode::kLd) && instruction.mods.space != ptx::Space::kParam &&
         instruction.mods.space != ptx::Space::kConst;
}

bool IsClock(const Operand& operand) {
  switch (operand.special) {
    case ptx::SpecialRegister::kClock:
    case ptx::SpecialRegister::kClockHi:
    case ptx::SpecialRegister::kClock64:
    case ptx::SpecialRegister::kGlobaltimer:
    case ptx::SpecialRegister::kGlobaltimerLo:
    case ptx::SpecialRegister::kGlobaltimerHi:
      return true;
    default:
      return false;
  }
}

bool ReadsClock(const Instruction& instruction) {
  for (size_t i = 1; i < instruction.operands.size(); ++i)
    if (IsClock(instruction.operands[i])) return true;
  return false;
}

bool Decides(const Instruction& instruction) {
  return instruction.Is(Opcode::kBra) || instruction.Is(Opcode::kBrx) ||
         instruction.Is(Opcode::kExit) || instruction.Is(Opcode::kRet);
}

// Whether a branch of the loop hangs on what an instruction for which `is_source` holds gave it.
bool DecidesBy(bool (*is_source)(const Instruction&), const ptx::Function& function, uint32_t first,
               uint32_t last) {
  Tainted tainted;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = first; i <= last; ++i) {
      const Instruction& instruction = function.body[i];
      bool taints = is_source(instruction) || tainted.Guards(instruction);
      for (size_t k = 1; k < instruction.operands.size() && !taints; ++k)
        taints = tainted.Reads(instruction.operands[k]);
      if (taints) changed |= tainted.AddResults(instruction);
    }
  }
  for (uint32_t i = first; i <= last; ++i) {
    const Instruction& instruction = function.body[i];
    if (!Decides(instruction)) continue;
    if (tainted.Guards(instruction)) return true;
    if (instruction.Is(Opcode::kBrx) && tainted.Reads(instruction.operands[0])) return true;
  }
  return false;
}

}  // namespace

bool IsSpinLoop(const ptx::Function& function, uint32_t first, uint32_t last) {
  bool looks = false, calls = false, times = false;
  for (uint32_t i = first; i <= last; ++i) {
    const Instruction& instruction = function.body[i];
    if (instruction.Is(Opcode::kNanosleep)) return true;
    looks |= instruction.Is(Opcode::kAtom) || IsStrongLoad(instruction);
    calls |= instruction.Is(Opcode::kCall);
    times |= ReadsClock(instruction);
  }
  if (looks && (calls || DecidesBy(ComesFromOthers, function, first, last))) return true;
  return times && DecidesBy(ReadsClock, function, first, last);
}

bool WaitsByLooking(const ptx::Function& function, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last; ++i)
    if (IsStrongLoad(function.body[i]) || ReadsClock(function.body[i]))
      return IsSpinLoop(function, first, last);
  return false;
}

}  // namespace farcall::cpu_device::jit
