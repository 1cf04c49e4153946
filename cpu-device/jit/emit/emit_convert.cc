// SPDX-License-Identifier: Apache-2.0
// cvt of all scalar pairs, packed narrowing, mov.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Rounding;
namespace intrinsic = llvm::Intrinsic;

llvm::Value* Emitter::RoundToIntegral(Value* value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kRni:
      return b_.CreateUnaryIntrinsic(intrinsic::roundeven, value);
    case Rounding::kRzi:
      return b_.CreateUnaryIntrinsic(intrinsic::trunc, value);
    case Rounding::kRmi:
      return b_.CreateUnaryIntrinsic(intrinsic::floor, value);
    case Rounding::kRpi:
      return b_.CreateUnaryIntrinsic(intrinsic::ceil, value);
    default:
      return value;
  }
}

// To a double from which a narrower format is rounded as from the integer itself: exact up to 53
// bits, beyond them with what was lost kept in the last bit.
llvm::Value* Emitter::WideIntToDouble(Value* value, bool is_signed) {
  Value* negative =
      is_signed ? b_.CreateICmpSLT(value, Int64(0)) : static_cast<Value*>(b_.getFalse());
  Value* magnitude = b_.CreateSelect(negative, b_.CreateNeg(value), value);
  Value* lost = b_.CreateICmpNE(b_.CreateAnd(magnitude, Int64(0x7ff)), Int64(0));
  Value* odd = b_.CreateOr(b_.CreateLShr(magnitude, 11), b_.CreateZExt(lost, b_.getInt64Ty()));
  Value* scaled = b_.CreateFMul(b_.CreateUIToFP(odd, b_.getDoubleTy()),
                                llvm::ConstantFP::get(b_.getDoubleTy(), 2048));
  Value* fits = b_.CreateICmpULT(magnitude, Int64(uint64_t{1} << 53));
  Value* result = b_.CreateSelect(fits, b_.CreateUIToFP(magnitude, b_.getDoubleTy()), scaled);
  return b_.CreateSelect(negative, b_.CreateFNeg(result), result);
}

llvm::Value* Emitter::IntToFloat(const Instruction& instruction, Value* value, Type to, Type from) {
  bool is_signed = ptx::IsSigned(from);
  Rounding rounding = instruction.mods.rounding;
  bool directed =
      rounding == Rounding::kRz || rounding == Rounding::kRm || rounding == Rounding::kRp;
  llvm::Type* target = to == Type::kF64 ? b_.getDoubleTy() : b_.getFloatTy();
  bool half = to == Type::kF16 || to == Type::kBf16;
  if (directed && !half) {
    Value* wide = Resize(value, 64, is_signed);
    std::string name = std::string("fc_rt_") + (to == Type::kF64 ? "f64" : "f32") +
                       (is_signed ? "_from_s64" : "_from_u64");
    uint32_t mode = rounding == Rounding::kRm ? 1 : rounding == Rounding::kRp ? 2 : 3;
    return Call(name.c_str(), target, {wide, Int32(mode)}, true);
  }
  if (half) {
    Value* exact = WideIntToDouble(Resize(value, 64, is_signed), is_signed);
    return NarrowDirected(exact, to, directed ? rounding : Rounding::kRn);
  }
  return is_signed ? b_.CreateSIToFP(value, target) : b_.CreateUIToFP(value, target);
}

llvm::Value* Emitter::FloatToInt(const Instruction& instruction, Value* value, Type to, Type from) {
  unsigned bits = ptx::BitsOf(to);
  Value* source = Widen(value, from);
  if (instruction.mods.ftz && from == Type::kF32) source = FlushSubnormal(source);
  Value* integral = RoundToIntegral(source, instruction.mods.rounding);
  auto id = ptx::IsSigned(to) ? intrinsic::fptosi_sat : intrinsic::fptoui_sat;
  Value* result = Intrinsic(id, {IntOf(bits), integral->getType()}, {integral});
  if (from == Type::kF64 || bits == 64)
    result = b_.CreateSelect(IsNan(source), ConstInt(bits, uint64_t{1} << (bits - 1)), result);
  return result;
}

// float or double to f16, bf16, f32 in any rounding; one rounding only.
llvm::Value* Emitter::NarrowDirected(Value* value, Type to, Rounding rounding) {
  bool from_double = value->getType()->isDoubleTy();
  if (to == Type::kF32) {
    if (rounding == Rounding::kRn || rounding == Rounding::kNone)
      return b_.CreateFPTrunc(value, b_.getFloatTy());
    uint32_t mode = rounding == Rounding::kRm ? 1 : rounding == Rounding::kRp ? 2 : 3;
    return Call("fc_rt_f32_from_f64", b_.getFloatTy(), {value, Int32(mode)}, true);
  }
  if (from_double) {
    Value* narrow = b_.CreateFPTrunc(value, b_.getFloatTy());
    Value* lost = b_.CreateFSub(value, b_.CreateFPExt(narrow, b_.getDoubleTy()));
    // The loss may underflow as float; only its sign counts.
    Value* zero = llvm::ConstantFP::get(b_.getDoubleTy(), 0);
    Value* unit = llvm::ConstantFP::get(b_.getFloatTy(), 1);
    Value* sign = b_.CreateSelect(b_.CreateFCmpOGT(lost, zero), unit,
                                  b_.CreateSelect(b_.CreateFCmpOLT(lost, zero), b_.CreateFNeg(unit),
                                                  llvm::ConstantFP::get(b_.getFloatTy(), 0)));
    auto is_infinite = [&](Value* x) {
      return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(intrinsic::fabs, x),
                              llvm::ConstantFP::getInfinity(x->getType()));
    };
    // A number beyond float's range: its largest, which is odd, stands for it.
    Value* largest = llvm::ConstantFP::get(b_.getFloatTy(),
                                           llvm::APFloat::getLargest(llvm::APFloat::IEEEsingle()));
    largest = b_.CreateBinaryIntrinsic(intrinsic::copysign, largest, narrow);
    value =
        b_.CreateSelect(is_infinite(narrow), b_.CreateSelect(is_infinite(value), narrow, largest),
                        RoundToOdd(narrow, sign));
  }
  Value* nearest = Narrow(value, to);
  if (rounding == Rounding::kRn || rounding == Rounding::kNone) return nearest;
  // Step back where the nearest lies on the wrong side.
  Value* back = Widen(nearest, to);
  Value* up = ConstInt(16, 1);
  Value* down = ConstInt(16, 0xffff);
  Value* negative = b_.CreateICmpSLT(nearest, ConstInt(16, 0));
  Value* is_zero = b_.CreateICmpEQ(b_.CreateAnd(nearest, ConstInt(16, 0x7fff)), ConstInt(16, 0));
  switch (rounding) {
    case Rounding::kRz: {
      Value* wrong = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(intrinsic::fabs, back),
                                      b_.CreateUnaryIntrinsic(intrinsic::fabs, value));
      return b_.CreateSelect(wrong, b_.CreateAdd(nearest, down), nearest);
    }
    case Rounding::kRm: {
      Value* lower = b_.CreateAdd(nearest, b_.CreateSelect(negative, up, down));
      lower = b_.CreateSelect(is_zero, ConstInt(16, 0x8001), lower);
      return b_.CreateSelect(b_.CreateFCmpOGT(back, value), lower, nearest);
    }
    case Rounding::kRp: {
      Value* higher = b_.CreateAdd(nearest, b_.CreateSelect(negative, down, up));
      higher = b_.CreateSelect(is_zero, ConstInt(16, 0x0001), higher);
      return b_.CreateSelect(b_.CreateFCmpOLT(back, value), higher, nearest);
    }
    default:
      return nullptr;
  }
}

llvm::Value* Emitter::FloatToFloat(const Instruction& instruction, Value* value, Type to,
                                   Type from) {
  const ptx::Modifiers& mods = instruction.mods;
  Value* wide = Widen(value, from);
  if (mods.ftz && from == Type::kF32) wide = FlushSubnormal(wide);
  bool integral = mods.rounding >= Rounding::kRni && mods.rounding <= Rounding::kRpi;
  if (integral) wide = RoundToIntegral(wide, mods.rounding);
  if (to == from) {
    if (mods.sat) wide = Saturate(wide);
    if (!integral && !mods.sat && !mods.relu && !(mods.ftz && from == Type::kF32)) return value;
    return Narrow(wide, to);
  }
  if (to == Type::kF64) {
    Value* result = b_.CreateFPExt(wide, b_.getDoubleTy());
    return mods.sat ? Saturate(result) : result;
  }
  if (mods.sat) wide = Saturate(wide);
  if (mods.relu) {
    Value* zero = llvm::ConstantFP::get(wide->getType(), 0);
    Value* keep = b_.CreateOr(b_.CreateFCmpOGT(wide, zero), IsNan(wide));
    wide = b_.CreateSelect(keep, wide, zero);
  }
  Value* result = nullptr;
  if (to == Type::kF32) {
    result = from == Type::kF64 ? NarrowDirected(wide, to, integral ? Rounding::kRn : mods.rounding)
                                : wide;
    if (mods.ftz) result = FlushSubnormal(result);
    return result;
  }
  result = NarrowDirected(wide, to, integral ? Rounding::kRn : mods.rounding);
  if (result && mods.satfinite) {
    // largest finite instead of infinity; NaN stays
    Value* limit = ConstInt(16, to == Type::kF16 ? 0x7bff : 0x7f7f);
    Value* infinity = ConstInt(16, to == Type::kF16 ? 0x7c00 : 0x7f80);
    Value* magnitude = b_.CreateAnd(result, ConstInt(16, 0x7fff));
    Value* clamped = b_.CreateOr(b_.CreateAnd(result, ConstInt(16, 0x8000)), limit);
    result = b_.CreateSelect(b_.CreateICmpEQ(magnitude, infinity), clamped, result);
  }
  return result;
}

// cvt.rn.f16x2.f32 d, a, b: a goes to the upper half.
bool Emitter::EmitConvertPacked(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type to = LaneType(instruction.type(0));
  if (instruction.type(1) != Type::kF32 || ops.size() != 3) return Unsupported(instruction);
  Value* halves[2];
  for (unsigned i = 0; i < 2; ++i) {
    halves[i] = FloatToFloat(instruction, Read(ops[2 - i], Type::kF32), to, Type::kF32);
    if (!halves[i]) return Unsupported(instruction);
  }
  Write(ops[0], Pack(halves[0], halves[1]));
  return true;
}

bool Emitter::IsFp8Pair(Type type) {
  return type == Type::kE4m3x2 || type == Type::kE5m2x2 || type == Type::kE2m1x2 ||
         type == Type::kE2m3x2 || type == Type::kE3m2x2;
}

// Two floats of 4, 6 or 8 bits and two f16, or two f32 of which the first goes to the upper half.
// Those of 6 bits take a byte each.
bool Emitter::EmitConvertFp8(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type to = instruction.type(0), from = instruction.type(1);
  const bool widens = IsFp8Pair(from);
  const Type pair_type = widens ? from : to;
  const std::string name(ptx::Name(pair_type).substr(0, 4));  // "e4m3"
  const unsigned part = pair_type == Type::kE2m1x2 ? 4 : 8;
  Value* lanes[2];
  if (widens) {
    if (to != Type::kF16x2) return Unsupported(instruction);
    Value* pair = ReadInt(ops[1], 2 * part);
    for (unsigned i = 0; i < 2; ++i) {
      Value* bits = Resize(Resize(b_.CreateLShr(pair, part * i), part), 32);
      Value* wide = Call(("fc_rt_f32_from_" + name).c_str(), b_.getFloatTy(), {bits}, true);
      if (instruction.mods.relu) {
        Value* zero = llvm::ConstantFP::get(b_.getFloatTy(), 0);
        wide = b_.CreateSelect(b_.CreateOr(b_.CreateFCmpOGT(wide, zero), IsNan(wide)), wide, zero);
      }
      lanes[i] = Narrow(wide, Type::kF16);
    }
    Write(ops[0], Pack(lanes[0], lanes[1]));
    return true;
  }
  bool packed = from == Type::kF16x2 || from == Type::kBf16x2;
  if (!packed && (from != Type::kF32 || ops.size() != 3)) return Unsupported(instruction);
  Value* pair = packed ? ReadInt(ops[1], 32) : nullptr;
  for (unsigned i = 0; i < 2; ++i) {
    Value* wide = packed ? Widen(Lane(pair, i, LaneType(from)), LaneType(from))
                         : Read(ops[2 - i], Type::kF32);
    Value* bits = Call(("fc_rt_" + name + "_from_f32").c_str(), b_.getInt32Ty(),
                       {wide, Int32(instruction.mods.relu)}, true);
    lanes[i] = Resize(bits, part);
  }
  Write(ops[0], Pack(lanes[0], lanes[1]));
  return true;
}

bool Emitter::EmitConvert(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  Type to = instruction.type(0), from = instruction.type(1);
  if (instruction.Has("pack")) {
    // cvt.pack.sat.{u8,s8,u16,...}.s32{.b32} d, a, b{, c}
    unsigned bits = ptx::BitsOf(to);
    Value* result = ops.size() > 3 ? b_.CreateShl(ReadInt(ops[3], 32), 2 * bits) : Int32(0);
    if (bits < 8) return Unsupported(instruction);
    for (unsigned i = 0; i < 2; ++i) {
      Value* value = ReadInt(ops[2 - i], 32);
      llvm::APInt low =
          ptx::IsSigned(to) ? llvm::APInt::getSignedMinValue(bits).sext(32) : llvm::APInt(32, 0);
      llvm::APInt high = ptx::IsSigned(to) ? llvm::APInt::getSignedMaxValue(bits).sext(32)
                                           : llvm::APInt::getMaxValue(bits).zext(32);
      value =
          b_.CreateBinaryIntrinsic(intrinsic::smax, value, llvm::ConstantInt::get(context_, low));
      value =
          b_.CreateBinaryIntrinsic(intrinsic::smin, value, llvm::ConstantInt::get(context_, high));
      Value* part = Resize(Resize(value, bits), 32);
      result = b_.CreateOr(result, b_.CreateShl(part, i * bits));
    }
    Write(ops[0], result);
    return true;
  }
  if (to == Type::kTf32 && from == Type::kF32) {
    Value* bits = ReadInt(ops[1], 32);
    Value* nan = IsNan(Read(ops[1], Type::kF32));
    Value* add = Int32(0x1000);
    if (mods.rounding == Rounding::kRn)
      add = b_.CreateAdd(Int32(0xfff), b_.CreateAnd(b_.CreateLShr(bits, 13), Int32(1)));
    else if (mods.rounding == Rounding::kRz)
      add = Int32(0);
    if (mods.satfinite || mods.relu) return Unsupported(instruction);
    Value* rounded = b_.CreateAnd(b_.CreateAdd(bits, add), Int32(0xffffe000));
    Write(ops[0], b_.CreateSelect(nan, Int32(0x7fffffff), rounded));
    return true;
  }
  if (IsFp8Pair(to) || IsFp8Pair(from)) return EmitConvertFp8(instruction);
  if (LaneType(to) != to) return EmitConvertPacked(instruction);
  bool to_float = IsFloatType(to), from_float = IsFloatType(from);
  if ((!to_float && !ptx::IsInteger(to)) || (!from_float && !ptx::IsInteger(from)) ||
      ptx::IsPacked(from) || ptx::IsPacked(to))
    return Unsupported(instruction);
  Value* value = Read(ops[1], from);
  Value* result = nullptr;
  if (to_float && from_float) {
    result = FloatToFloat(instruction, value, to, from);
  } else if (to_float) {
    result = IntToFloat(instruction, value, to, from);
    if (result && mods.sat && (to == Type::kF32 || to == Type::kF64)) result = Saturate(result);
  } else if (from_float) {
    result = FloatToInt(instruction, value, to, from);
  } else {
    unsigned bits = ptx::BitsOf(to);
    if (mods.sat) {
      unsigned wide =
          std::max(bits, ptx::BitsOf(from)) + 1;  // one more, so that signedness is no matter
      Value* x = Resize(value, wide, ptx::IsSigned(from));
      llvm::APInt low = ptx::IsSigned(to) ? llvm::APInt::getSignedMinValue(bits).sext(wide)
                                          : llvm::APInt(wide, 0);
      llvm::APInt high = ptx::IsSigned(to) ? llvm::APInt::getSignedMaxValue(bits).sext(wide)
                                           : llvm::APInt::getMaxValue(bits).zext(wide);
      x = b_.CreateBinaryIntrinsic(intrinsic::smax, x, llvm::ConstantInt::get(context_, low));
      x = b_.CreateBinaryIntrinsic(intrinsic::smin, x, llvm::ConstantInt::get(context_, high));
      result = Resize(x, bits);
    } else {
      result = Resize(value, bits, ptx::IsSigned(from));
    }
  }
  if (!result) return Unsupported(instruction);
  Write(ops[0], result, ptx::IsSigned(to));
  return true;
}

bool Emitter::EmitMove(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type();
  if (type == Type::kPred) {
    Write(ops[0], ReadPredicate(ops[1]));
    return true;
  }
  if (ops[1].Is(Operand::Kind::kRegister)) {
    // no detour over integers, so that phis of floats stay floats
    Value* value = ReadRegister(ops[1].reg);
    if (value->getType()->getPrimitiveSizeInBits() == ptx::BitsOf(type)) {
      Write(ops[0], value);
      return true;
    }
  }
  Write(ops[0], Read(ops[1], type));
  return true;
}

}  // namespace farcall::cpu_device::jit
