// SPDX-License-Identifier: Apache-2.0
// Video instructions: of whole words, two halves or four bytes, without masks and selectors.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::Value;
using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::ShiftMode;
using ptx::Type;
namespace intrinsic = llvm::Intrinsic;

namespace {

// How many parts of a word are computed side by side.
unsigned LanesOf(const Instruction& instruction) {
  const char last = instruction.Part(0).back();
  return last == '4' ? 4 : last == '2' ? 2 : 1;
}

llvm::CmpInst::Predicate PredicateOf(ptx::Compare compare) {
  using llvm::CmpInst;
  using ptx::Compare;
  switch (compare) {
    case Compare::kEq:
      return CmpInst::ICMP_EQ;
    case Compare::kNe:
      return CmpInst::ICMP_NE;
    case Compare::kLt:
      return CmpInst::ICMP_SLT;
    case Compare::kLe:
      return CmpInst::ICMP_SLE;
    case Compare::kGt:
      return CmpInst::ICMP_SGT;
    case Compare::kGe:
      return CmpInst::ICMP_SGE;
    default:
      return CmpInst::BAD_ICMP_PREDICATE;
  }
}

bool IsWord(Type type) {
  return type == Type::kU32 || type == Type::kS32;
}

}  // namespace

// Of vectors whose elements are wide enough for every result. Null: no such instruction.
Value* Emitter::VideoResult(const Instruction& instruction, Value* a, Value* b) {
  auto constant = [&](uint64_t value) { return llvm::ConstantInt::get(a->getType(), value); };
  switch (instruction.opcode) {
    case Opcode::kVadd:
    case Opcode::kVadd2:
    case Opcode::kVadd4:
      return b_.CreateAdd(a, b);
    case Opcode::kVsub:
    case Opcode::kVsub2:
    case Opcode::kVsub4:
      return b_.CreateSub(a, b);
    case Opcode::kVabsdiff:
    case Opcode::kVabsdiff2:
    case Opcode::kVabsdiff4:
      return b_.CreateBinaryIntrinsic(intrinsic::abs, b_.CreateSub(a, b), b_.getFalse());
    case Opcode::kVavrg2:
    case Opcode::kVavrg4: {  // halves go up, of negative sums down
      Value* sum = b_.CreateAdd(a, b);
      Value* up = b_.CreateZExt(b_.CreateICmpSGE(sum, constant(0)), a->getType());
      return b_.CreateAShr(b_.CreateAdd(sum, up), constant(1));
    }
    case Opcode::kVmin:
    case Opcode::kVmin2:
    case Opcode::kVmin4:
      return b_.CreateBinaryIntrinsic(intrinsic::smin, a, b);
    case Opcode::kVmax:
    case Opcode::kVmax2:
    case Opcode::kVmax4:
      return b_.CreateBinaryIntrinsic(intrinsic::smax, a, b);
    case Opcode::kVset:
    case Opcode::kVset2:
    case Opcode::kVset4: {
      const llvm::CmpInst::Predicate predicate = PredicateOf(instruction.mods.compare);
      if (predicate == llvm::CmpInst::BAD_ICMP_PREDICATE) return nullptr;
      return b_.CreateZExt(b_.CreateICmp(predicate, a, b), a->getType());
    }
    default: {  // shifts: amounts wrap, or clamp at the word's width
      const ShiftMode mode = instruction.mods.shift_mode;
      if (mode == ShiftMode::kNone || instruction.type(2) != Type::kU32) return nullptr;
      b = mode == ShiftMode::kWrap ? b_.CreateAnd(b, constant(31))
                                   : b_.CreateBinaryIntrinsic(intrinsic::umin, b, constant(32));
      if (instruction.Is(Opcode::kVshl)) return b_.CreateShl(a, b);
      return b_.CreateAShr(a, b);  // wide enough to be right of unsigned words too
    }
  }
}

// vop.dtype.atype.btype{.sat}{.op2} d, a, b{, c}. Of a word, op2 is what is done with the result
// and c. Of parts, .add sums c and all of them; without it c stands for parts that a mask leaves
// out.
bool Emitter::EmitVideo(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const unsigned lanes = LanesOf(instruction), bits = 32 / lanes;
  const bool sets = instruction.mods.compare != ptx::Compare::kNone;
  std::string_view second;
  for (unsigned i = 1; !instruction.Part(i).empty(); ++i) {
    const std::string_view word = instruction.Part(i);
    if (word != "add" && word != "min" && word != "max") continue;
    if (!second.empty()) return Unsupported(instruction);
    second = word;
  }
  const Type to = sets ? Type::kU32 : instruction.type();
  const Type of_a = instruction.type(sets ? 0 : 1), of_b = instruction.type(sets ? 1 : 2);
  if (instruction.mods.type_count != (sets ? 2 : 3) || !IsWord(to) || !IsWord(of_a) ||
      !IsWord(of_b) || ops.size() != (lanes > 1 || !second.empty() ? 4u : 3u) ||
      (lanes > 1 && !second.empty() && (second != "add" || instruction.mods.sat)))
    return Unsupported(instruction);
  auto vector_of = [&](unsigned width) { return llvm::FixedVectorType::get(IntOf(width), lanes); };
  auto* wide = vector_of(lanes == 1 ? 64 : 32);
  auto parts = [&](const Operand& operand, Type type) {
    return b_.CreateIntCast(b_.CreateBitCast(ReadInt(operand, 32), vector_of(bits)), wide,
                            ptx::IsSigned(type));
  };
  Value* result = VideoResult(instruction, parts(ops[1], of_a), parts(ops[2], of_b));
  if (result == nullptr) return Unsupported(instruction);
  const bool is_signed = ptx::IsSigned(to);
  if (instruction.mods.sat) {
    const int64_t most = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    auto limit = [&](int64_t value) {
      return llvm::ConstantInt::get(wide, static_cast<uint64_t>(value), true);
    };
    result = b_.CreateBinaryIntrinsic(intrinsic::smax, result, limit(is_signed ? -most - 1 : 0));
    result = b_.CreateBinaryIntrinsic(intrinsic::smin, result, limit(most));
  }
  if (lanes > 1 && !second.empty()) {
    Write(ops[0], b_.CreateAdd(b_.CreateAddReduce(result), ReadInt(ops[3], 32)));
    return true;
  }
  result = b_.CreateBitCast(b_.CreateTrunc(result, vector_of(bits)), IntOf(32));
  if (second == "add") result = b_.CreateAdd(result, ReadInt(ops[3], 32));
  if (second == "min" || second == "max") {
    const auto id = second == "min" ? (is_signed ? intrinsic::smin : intrinsic::umin)
                                    : (is_signed ? intrinsic::smax : intrinsic::umax);
    result = b_.CreateBinaryIntrinsic(id, result, ReadInt(ops[3], 32));
  }
  Write(ops[0], result);
  return true;
}

}  // namespace farcall::cpu_device::jit
