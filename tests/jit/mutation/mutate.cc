// SPDX-License-Identifier: Apache-2.0
// Spoils the lowering of one mnemonic, that of FARCALL_PTXJIT_MUTATE, in a compiler built for tests
// alone: a test of that mnemonic must notice. The lowest bit of each result is flipped, or one that
// no documented bound excuses where the result is approximate; what has no result is left out.
#include <cstdlib>
#include <string_view>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {
namespace {

using ptx::Opcode;
using ptx::Operand;

bool IsSpoilt(const ptx::Instruction& instruction) {
  const char* mnemonic = std::getenv("FARCALL_PTXJIT_MUTATE");
  return mnemonic != nullptr && instruction.mnemonic == mnemonic;
}

// An arrival is what mbarrier.arrive is for, not the state it returns.
bool HasResult(const ptx::Instruction& instruction) {
  if (instruction.operands.empty() || instruction.Is(Opcode::kCall)) return false;
  if (instruction.Is(Opcode::kMbarrier))
    return instruction.Part(1) != "arrive" && instruction.Part(1) != "arrive_drop" &&
           instruction.operands[0].Is(Operand::Kind::kRegister);
  switch (instruction.opcode) {
    case Opcode::kBar:
    case Opcode::kBarrier:
      return instruction.mods.barrier == ptx::BarrierOp::kRed;
    case Opcode::kBrx:
    case Opcode::kNanosleep:
    case Opcode::kStackrestore:
    case Opcode::kSetmaxnreg:
      return false;
    default:
      break;
  }
  const Operand& first = instruction.operands[0];
  return first.Is(Operand::Kind::kRegister) || first.Is(Operand::Kind::kVector);
}

}  // namespace

bool Emitter::DispatchMutated(const Instruction& instruction) {
  if (!IsSpoilt(instruction)) return Dispatch(instruction);
  if (!HasResult(instruction)) return true;
  if (!Dispatch(instruction)) return false;
  std::vector<Operand> results = Parts(instruction.operands[0]);
  results.push_back(instruction.second_dst);
  const bool tf32 = instruction.type() == Type::kTf32;  // whose low 13 bits do not count
  const bool approximate = instruction.mods.approx || instruction.mods.full;
  for (const Operand& result : results) {
    if (!result.Is(Operand::Kind::kRegister)) continue;
    Value* value = AsInt(ReadRegister(result.reg));
    const unsigned bits = value->getType()->getIntegerBitWidth();
    const unsigned bit = tf32 ? 13 : !approximate ? 0 : bits == 64 ? 40 : bits == 32 ? 14 : 5;
    Write(result, b_.CreateXor(value, ConstInt(bits, uint64_t{1} << bit)));
  }
  return true;
}

}  // namespace farcall::cpu_device::jit
