// SPDX-License-Identifier: Apache-2.0
// Floating point arithmetic. f16 and bf16 are bits in integer registers: computed in float, rounded
// once.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Opcode;
using ptx::Rounding;
namespace intrinsic = llvm::Intrinsic;

bool Emitter::IsFloatType(Type type) const {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
    case Type::kBf16:
    case Type::kBf16x2:
    case Type::kF32:
    case Type::kF32x2:
    case Type::kF64:
      return true;
    default:
      return false;
  }
}

ptx::Type Emitter::LaneType(Type type) {
  switch (type) {
    case Type::kF16x2:
      return Type::kF16;
    case Type::kBf16x2:
      return Type::kBf16;
    case Type::kF32x2:
      return Type::kF32;
    default:
      return type;
  }
}

llvm::Value* Emitter::Lane(Value* packed, unsigned lane, Type lane_type) {
  unsigned bits = ptx::BitsOf(lane_type);
  return Cast(Resize(b_.CreateLShr(AsInt(packed), lane * bits), bits), TypeOf(lane_type));
}

llvm::Value* Emitter::Pack(Value* low, Value* high) {
  low = AsInt(low);
  high = AsInt(high);
  unsigned bits = low->getType()->getIntegerBitWidth();
  return b_.CreateOr(Resize(low, 2 * bits), b_.CreateShl(Resize(high, 2 * bits), bits));
}

llvm::Value* Emitter::Widen(Value* value, Type type) {
  if (type == Type::kF16)
    return b_.CreateFPExt(b_.CreateBitCast(value, b_.getHalfTy()), b_.getFloatTy());
  if (type == Type::kBf16)
    return b_.CreateBitCast(b_.CreateShl(Resize(value, 32), 16), b_.getFloatTy());
  return value;
}

llvm::Value* Emitter::Narrow(Value* value, Type type) {
  if (type == Type::kBf16) return ToBf16(value);
  if (type != Type::kF16) return value;
  Value* half = b_.CreateBitCast(b_.CreateFPTrunc(value, b_.getHalfTy()), b_.getInt16Ty());
  return b_.CreateSelect(IsNan(value), ConstInt(16, 0x7fff), half);  // PTX's canonical NaN
}

llvm::Value* Emitter::ToBf16(Value* value) {
  Value* bits = AsInt(value);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), Int32(1));
  Value* rounded = b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, Int32(0x7fff))), 16);
  return b_.CreateSelect(IsNan(value), ConstInt(16, 0x7fff), Resize(rounded, 16));
}

// `sum` is a sum rounded to nearest and `error` what it lost. Of the two neighbours the odd one is
// taken when it is inexact, so that a later rounding to fewer bits is as if it were the only one.
llvm::Value* Emitter::RoundToOdd(Value* sum, Value* error) {
  Value* zero = llvm::ConstantFP::get(sum->getType(), 0);
  Value* bits = AsInt(sum);
  unsigned width = bits->getType()->getIntegerBitWidth();
  Value* inexact = b_.CreateFCmpONE(error, zero);
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, ConstInt(width, 1)), ConstInt(width, 0));
  // By the sign bit, not by comparison: the sum may have become a zero.
  Value* positive = b_.CreateICmpSGE(bits, ConstInt(width, 0));
  Value* outward = b_.CreateICmpEQ(b_.CreateFCmpOGT(error, zero), positive);
  Value* step =
      b_.CreateSelect(outward, ConstInt(width, 1), llvm::Constant::getAllOnesValue(IntOf(width)));
  Value* moved = b_.CreateAdd(bits, step);
  Value* odd = b_.CreateSelect(b_.CreateAnd(inexact, even), moved, bits);
  return b_.CreateBitCast(odd, sum->getType());
}

// a * b + c of f16 or bf16, given widened to float, rounded once.
llvm::Value* Emitter::HalfFma(Value* a, Value* b, Value* c, Type type) {
  if (type == Type::kBf16) {
    llvm::Type* wide = b_.getDoubleTy();
    a = b_.CreateFPExt(a, wide);
    b = b_.CreateFPExt(b, wide);
    c = b_.CreateFPExt(c, wide);
  }
  Value* product = b_.CreateFMul(a, b);  // exact: twice the bits fit
  Value* sum = b_.CreateFAdd(product, c);
  Value* part = b_.CreateFSub(sum, product);
  Value* error =
      b_.CreateFAdd(b_.CreateFSub(product, b_.CreateFSub(sum, part)), b_.CreateFSub(c, part));
  Value* odd = RoundToOdd(sum, error);
  if (type == Type::kBf16) {
    Value* narrow = b_.CreateFPTrunc(odd, b_.getFloatTy());
    Value* lost = b_.CreateFSub(odd, b_.CreateFPExt(narrow, b_.getDoubleTy()));
    odd = RoundToOdd(narrow, b_.CreateFPTrunc(lost, b_.getFloatTy()));
  }
  return odd;
}

llvm::Value* Emitter::FlushSubnormal(Value* value) {
  bool wide = value->getType()->isDoubleTy();
  Value* bits = AsInt(value);
  unsigned width = wide ? 64 : 32;
  Value* exponent = b_.CreateAnd(bits, ConstInt(width, wide ? 0x7ff0000000000000ull : 0x7f800000));
  Value* sign = b_.CreateAnd(bits, ConstInt(width, uint64_t{1} << (width - 1)));
  Value* tiny = b_.CreateICmpEQ(exponent, ConstInt(width, 0));
  return b_.CreateBitCast(b_.CreateSelect(tiny, sign, bits), value->getType());
}

// The same for f16, which is bits.
llvm::Value* Emitter::FlushHalf(Value* bits) {
  Value* tiny = b_.CreateICmpEQ(b_.CreateAnd(bits, ConstInt(16, 0x7c00)), ConstInt(16, 0));
  return b_.CreateSelect(tiny, b_.CreateAnd(bits, ConstInt(16, 0x8000)), bits);
}

// To [0, 1]; NaN and -0 become +0.
llvm::Value* Emitter::Saturate(Value* value) {
  Value* zero = llvm::ConstantFP::get(value->getType(), 0);
  Value* one = llvm::ConstantFP::get(value->getType(), 1);
  Value* low = b_.CreateSelect(b_.CreateFCmpOGT(value, zero), value, zero);
  return b_.CreateSelect(b_.CreateFCmpOLT(low, one), low, one);
}

llvm::Value* Emitter::CanonicalNan(llvm::Type* type) {
  uint64_t bits = type->isDoubleTy() ? 0x7fffffffffffffffull : 0x7fffffffu;
  return b_.CreateBitCast(ConstInt(BitsOf(type), bits), type);
}

// IEEE minimumNumber / maximumNumber, or minimum / maximum with `nan`: -0 < +0.
llvm::Value* Emitter::FloatMinMax(Value* a, Value* b, bool is_max, bool nan, bool xorsign_abs) {
  llvm::Type* type = a->getType();
  const unsigned width = BitsOf(type);
  Value* sign_bit = ConstInt(width, uint64_t{1} << (width - 1));
  Value* sign = nullptr;
  if (xorsign_abs) {
    sign = b_.CreateAnd(b_.CreateXor(AsInt(a), AsInt(b)), sign_bit);
    a = b_.CreateUnaryIntrinsic(intrinsic::fabs, a);
    b = b_.CreateUnaryIntrinsic(intrinsic::fabs, b);
  }
  Value* wins = is_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b);
  Value* result = b_.CreateSelect(wins, a, b);
  Value* equal = b_.CreateFCmpOEQ(a, b);
  Value* same = is_max ? b_.CreateAnd(AsInt(a), AsInt(b)) : b_.CreateOr(AsInt(a), AsInt(b));
  result = b_.CreateSelect(equal, b_.CreateBitCast(same, type), result);
  if (sign) result = b_.CreateBitCast(b_.CreateOr(AsInt(result), sign), type);
  Value* canonical = CanonicalNan(type);
  if (nan) return b_.CreateSelect(b_.CreateFCmpUNO(a, b), canonical, result);
  // b was chosen if either is NaN
  Value* other = b_.CreateSelect(IsNan(a), canonical, a);
  Value* b_nan = IsNan(b);
  if (sign) other = b_.CreateBitCast(b_.CreateOr(AsInt(other), sign), type);
  return b_.CreateSelect(b_nan, other, result);
}

// A helper that sets the FPU's rounding mode: field of MXCSR.
llvm::Value* Emitter::Rounded(const char* operation, llvm::ArrayRef<Value*> arguments,
                              Rounding rounding) {
  llvm::Type* type = arguments[0]->getType();
  std::string name = std::string("fc_rt_") + operation + (type->isDoubleTy() ? "_f64" : "_f32");
  uint32_t mode = rounding == Rounding::kRm ? 1 : rounding == Rounding::kRp ? 2 : 3;
  std::vector<Value*> all(arguments.begin(), arguments.end());
  all.push_back(Int32(mode));
  return Call(name.c_str(), type, all, true);
}

namespace {

bool IsDirected(Rounding rounding) {
  return rounding == Rounding::kRz || rounding == Rounding::kRm || rounding == Rounding::kRp;
}

// PTX ISA, add, sub, mul: without a rounding modifier a product and the sum it goes into may become
// one fma, as ptxas makes them.
void AllowContraction(Opcode opcode, llvm::Value* result) {
  if (opcode != Opcode::kAdd && opcode != Opcode::kSub && opcode != Opcode::kMul) return;
  if (auto* operation = llvm::dyn_cast<llvm::Instruction>(result))
    operation->setHasAllowContract(true);
}

}  // namespace

// Long: a flat switch over the operations of floats.
llvm::Value* Emitter::FloatLane(const Instruction& instruction, Type type,
                                llvm::ArrayRef<Value*> raw) {
  const ptx::Modifiers& mods = instruction.mods;
  bool half = type == Type::kF16 || type == Type::kBf16;
  Rounding rounding = mods.rounding;
  if (half && IsDirected(rounding)) return nullptr;
  bool directed = IsDirected(rounding);
  std::vector<Value*> x;
  for (Value* value : raw) {
    x.push_back(Widen(type == Type::kF16 && mods.ftz ? FlushHalf(value) : value, type));
    if (mods.ftz && type == Type::kF32) x.back() = FlushSubnormal(x.back());
  }
  // abs and neg keep NaN payloads and every other bit
  Value* result = nullptr;
  auto one = [&] { return llvm::ConstantFP::get(x[0]->getType(), 1); };
  auto mask_low = [&](Value* value) {  // *.approx.ftz.f64: the low word is zero
    return b_.CreateBitCast(b_.CreateAnd(AsInt(value), Int64(0xffffffff00000000ull)),
                            value->getType());
  };
  auto unary = [&](const char* name) { return Call(name, b_.getFloatTy(), {x[0]}, true); };
  switch (instruction.opcode) {
    case Opcode::kAdd:
      result = directed ? Rounded("add", x, rounding) : b_.CreateFAdd(x[0], x[1]);
      break;
    case Opcode::kSub: {
      Value* negative = b_.CreateFNeg(x[1]);
      result = directed ? Rounded("add", {x[0], negative}, rounding) : b_.CreateFSub(x[0], x[1]);
      break;
    }
    case Opcode::kMul:
      result = directed ? Rounded("mul", x, rounding) : b_.CreateFMul(x[0], x[1]);
      break;
    case Opcode::kFma:
    case Opcode::kMad:
      if (half) {
        result = HalfFma(x[0], x[1], x[2], type);
      } else {
        result = directed ? Rounded("fma", x, rounding)
                          : b_.CreateIntrinsic(intrinsic::fma, {x[0]->getType()}, x);
      }
      break;
    case Opcode::kDiv:
      result = directed ? Rounded("div", x, rounding) : b_.CreateFDiv(x[0], x[1]);
      break;
    case Opcode::kRcp:
      result = directed ? Rounded("div", {one(), x[0]}, rounding) : b_.CreateFDiv(one(), x[0]);
      if (mods.approx && type == Type::kF64) result = mask_low(result);
      break;
    case Opcode::kSqrt:
      result =
          directed ? Rounded("sqrt", x, rounding) : b_.CreateUnaryIntrinsic(intrinsic::sqrt, x[0]);
      break;
    case Opcode::kRsqrt:
      result = b_.CreateFDiv(one(), b_.CreateUnaryIntrinsic(intrinsic::sqrt, x[0]));
      // Without ftz it is as good as CUDA's rsqrt(double), which is this instruction alone.
      if (mods.ftz && type == Type::kF64) result = mask_low(result);
      break;
    case Opcode::kSin:
      result = unary("sinf");
      break;
    case Opcode::kCos:
      result = unary("cosf");
      break;
    case Opcode::kEx2:
      result = unary("exp2f");
      break;
    case Opcode::kLg2:
      result = unary("log2f");
      break;
    case Opcode::kTanh:
      result = unary("tanhf");
      break;
    case Opcode::kAbs:
      result = b_.CreateUnaryIntrinsic(intrinsic::fabs, x[0]);
      break;
    case Opcode::kNeg:
      result = b_.CreateFNeg(x[0]);
      break;
    case Opcode::kMin:
    case Opcode::kMax:
      result = FloatMinMax(x[0], x[1], instruction.Is(Opcode::kMax), mods.nan, mods.xorsign_abs);
      if (x.size() > 2) {
        result =
            FloatMinMax(result, x[2], instruction.Is(Opcode::kMax), mods.nan, mods.xorsign_abs);
      }
      break;
    default:
      return nullptr;
  }
  if (rounding == Rounding::kNone && !half) AllowContraction(instruction.opcode, result);
  if (mods.sat) result = Saturate(result);
  if (mods.ftz && type == Type::kF32) result = FlushSubnormal(result);
  if (mods.relu) {
    Value* positive = b_.CreateFCmpOGT(result, llvm::ConstantFP::get(result->getType(), 0));
    Value* keep = b_.CreateOr(positive, IsNan(result));
    result = b_.CreateSelect(keep, result, llvm::ConstantFP::get(result->getType(), 0));
  }
  if (half && (instruction.Is(Opcode::kAbs) || instruction.Is(Opcode::kNeg))) {
    // on the bits, so that NaNs stay
    Value* bits = type == Type::kF16 && mods.ftz ? FlushHalf(raw[0]) : raw[0];
    return instruction.Is(Opcode::kAbs) ? b_.CreateAnd(bits, ConstInt(16, 0x7fff))
                                        : b_.CreateXor(bits, ConstInt(16, 0x8000));
  }
  result = Narrow(result, type);
  return type == Type::kF16 && mods.ftz ? FlushHalf(result) : result;
}

bool Emitter::EmitFloat(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type(), lane_type = LaneType(type);
  bool packed = lane_type != type;
  Value* lanes[2] = {};
  std::vector<Value*> operands;
  if (instruction.mods.type_count > 1 && instruction.type(1) != type)
    return EmitMixedFloat(instruction);
  for (size_t i = 1; i < ops.size(); ++i) operands.push_back(Read(ops[i], type));
  for (unsigned lane = 0; lane < (packed ? 2u : 1u); ++lane) {
    std::vector<Value*> arguments;
    arguments.reserve(operands.size());
    for (Value* operand : operands)
      arguments.push_back(packed ? Lane(operand, lane, lane_type) : operand);
    lanes[lane] = FloatLane(instruction, lane_type, arguments);
    if (!lanes[lane]) return Unsupported(instruction);
  }
  Write(ops[0], packed ? Pack(lanes[0], lanes[1]) : lanes[0]);
  return true;
}

// add.f32.f16 d, a, c; fma.rn.f32.f16 d, a, b, c: the narrow operands are widened first, then all
// is one operation in single precision.
bool Emitter::EmitMixedFloat(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const Type type = instruction.type(), narrow = instruction.type(1);
  const bool sums = instruction.Is(Opcode::kAdd) || instruction.Is(Opcode::kSub);
  const size_t count = instruction.Is(Opcode::kFma) ? 4 : 3;
  if ((!sums && !instruction.Is(Opcode::kFma)) || type != Type::kF32 || instruction.mods.ftz ||
      (narrow != Type::kF16 && narrow != Type::kBf16) || ops.size() != count)
    return Unsupported(instruction);
  std::vector<Value*> arguments;
  for (size_t i = 1; i + 1 < count; ++i) arguments.push_back(Widen(Read(ops[i], narrow), narrow));
  arguments.push_back(Read(ops[count - 1], type));
  Write(ops[0], FloatLane(instruction, type, arguments));
  return true;
}

bool Emitter::EmitTestp(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  bool wide = instruction.type() == Type::kF64;
  unsigned bits = wide ? 64 : 32;
  Value* raw = ReadInt(ops[1], bits);
  Value* magnitude = b_.CreateAnd(raw, ConstInt(bits, ~0ull >> (wide ? 1 : 33)));
  Value* infinity = ConstInt(bits, wide ? 0x7ff0000000000000ull : 0x7f800000);
  Value* smallest_normal = ConstInt(bits, wide ? 0x0010000000000000ull : 0x00800000);
  Value* result = nullptr;
  switch (instruction.mods.test) {
    case ptx::TestOp::kFinite:
      result = b_.CreateICmpULT(magnitude, infinity);
      break;
    case ptx::TestOp::kInfinite:
      result = b_.CreateICmpEQ(magnitude, infinity);
      break;
    case ptx::TestOp::kNumber:
      result = b_.CreateICmpULE(magnitude, infinity);
      break;
    case ptx::TestOp::kNotanumber:
      result = b_.CreateICmpUGT(magnitude, infinity);
      break;
    case ptx::TestOp::kNormal:
      result = b_.CreateAnd(b_.CreateICmpUGE(magnitude, smallest_normal),
                            b_.CreateICmpULT(magnitude, infinity));
      break;
    case ptx::TestOp::kSubnormal:
      result = b_.CreateAnd(b_.CreateICmpULT(magnitude, smallest_normal),
                            b_.CreateICmpNE(magnitude, ConstInt(bits, 0)));
      break;
    default:
      return Unsupported(instruction);
  }
  Write(ops[0], result);
  return true;
}

// copysign d, a, b: the sign of a on the value of b.
bool Emitter::EmitCopysign(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* sign = Read(ops[1], instruction.type());
  Value* value = Read(ops[2], instruction.type());
  Write(ops[0], b_.CreateBinaryIntrinsic(intrinsic::copysign, value, sign));
  return true;
}

}  // namespace farcall::cpu_device::jit
