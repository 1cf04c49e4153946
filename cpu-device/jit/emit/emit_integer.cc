// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic: add to sad, carries, 24-bit, packed halves, dot products.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::Intrinsic::ID;
using ptx::MulMode;
using ptx::Opcode;
namespace intrinsic = llvm::Intrinsic;

bool Emitter::EmitInteger(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type();
  if (type == Type::kS16x2 || type == Type::kU16x2) return EmitPackedInteger(instruction);
  if (instruction.Is(Opcode::kDp4a) || instruction.Is(Opcode::kDp2a))
    return EmitDotProduct(instruction);
  if (instruction.mods.cc || instruction.Is(Opcode::kAddc) || instruction.Is(Opcode::kSubc) ||
      instruction.Is(Opcode::kMadc))
    return EmitCarry(instruction);
  unsigned bits = ptx::BitsOf(type);
  bool is_signed = ptx::IsSigned(type);
  auto read = [&](size_t i) { return ReadInt(ops[i], bits, is_signed); };
  auto binary = [&](ID id) { return b_.CreateBinaryIntrinsic(id, read(1), read(2)); };
  Value* result = nullptr;
  switch (instruction.opcode) {
    case Opcode::kAdd:
      result = instruction.mods.sat ? binary(intrinsic::sadd_sat) : b_.CreateAdd(read(1), read(2));
      break;
    case Opcode::kSub:
      result = instruction.mods.sat ? binary(intrinsic::ssub_sat) : b_.CreateSub(read(1), read(2));
      break;
    case Opcode::kMul:
    case Opcode::kMad:
    case Opcode::kMul24:
    case Opcode::kMad24:
      return EmitMultiply(instruction);
    case Opcode::kDiv:
    case Opcode::kRem:
      return EmitDivision(instruction);
    case Opcode::kAbs:
      result = b_.CreateBinaryIntrinsic(intrinsic::abs, read(1), b_.getFalse());
      break;
    case Opcode::kNeg:
      result = b_.CreateNeg(read(1));
      break;
    case Opcode::kMin:
      result = binary(is_signed ? intrinsic::smin : intrinsic::umin);
      break;
    case Opcode::kMax:
      result = binary(is_signed ? intrinsic::smax : intrinsic::umax);
      break;
    case Opcode::kSad: {
      Value* a = read(1);
      Value* b = read(2);
      Value* less = is_signed ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
      result = b_.CreateAdd(read(3), b_.CreateSelect(less, b_.CreateSub(b, a), b_.CreateSub(a, b)));
      break;
    }
    default:
      return Unsupported(instruction);
  }
  if (instruction.mods.relu)
    result = b_.CreateBinaryIntrinsic(intrinsic::smax, result, ConstInt(bits, 0));
  Write(ops[0], result, is_signed);
  return true;
}

// A zero divisor must not trap. The results are those the hardware gives: all ones, and the
// dividend.
bool Emitter::EmitDivision(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type);
  bool is_signed = ptx::IsSigned(type), rem = instruction.Is(Opcode::kRem);
  Value* a = ReadInt(ops[1], bits, is_signed);
  Value* b = ReadInt(ops[2], bits, is_signed);
  Value* zero = b_.CreateICmpEQ(b, ConstInt(bits, 0));
  Value* unsafe = zero;
  Value* fallback = rem ? a : ConstInt(bits, ~0ull);
  if (is_signed) {
    // MIN / -1 wraps to MIN, remainder 0: dividing by 1 gives the same.
    Value* overflow = b_.CreateAnd(
        b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(IntOf(bits))),
        b_.CreateICmpEQ(a, llvm::ConstantInt::get(context_, llvm::APInt::getSignedMinValue(bits))));
    unsafe = b_.CreateOr(zero, overflow);
  }
  Value* divisor = b_.CreateSelect(unsafe, ConstInt(bits, 1), b);
  Value* result = rem ? (is_signed ? b_.CreateSRem(a, divisor) : b_.CreateURem(a, divisor))
                      : (is_signed ? b_.CreateSDiv(a, divisor) : b_.CreateUDiv(a, divisor));
  if (rem && bits < 64) fallback = a;
  Write(ops[0], b_.CreateSelect(zero, Resize(fallback, bits), result), is_signed);
  return true;
}

bool Emitter::EmitMultiply(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type);
  bool is_signed = ptx::IsSigned(type);
  bool is24 = instruction.Is(Opcode::kMul24) || instruction.Is(Opcode::kMad24);
  bool add = instruction.Is(Opcode::kMad) || instruction.Is(Opcode::kMad24);
  MulMode mode = instruction.mods.mul_mode;
  Value* a = ReadInt(ops[1], bits, is_signed);
  Value* b = ReadInt(ops[2], bits, is_signed);
  if (is24) {
    a = Resize(Resize(a, 24), bits, is_signed);
    b = Resize(Resize(b, 24), bits, is_signed);
  }
  unsigned out_bits = mode == MulMode::kWide ? 2 * bits : bits;
  Value* product = nullptr;
  if (mode == MulMode::kLo || mode == MulMode::kNone) {
    product = b_.CreateMul(a, b);
  } else {
    Value* wide = b_.CreateMul(Resize(a, 2 * bits, is_signed), Resize(b, 2 * bits, is_signed));
    product = mode == MulMode::kWide ? wide : Resize(b_.CreateLShr(wide, is24 ? 16 : bits), bits);
  }
  if (add) {
    Value* c = ReadInt(ops[3], out_bits, is_signed);
    product = instruction.mods.sat ? b_.CreateBinaryIntrinsic(intrinsic::sadd_sat, product, c)
                                   : b_.CreateAdd(product, c);
  }
  Write(ops[0], product, is_signed);
  return true;
}

bool Emitter::EmitCarry(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  unsigned bits = ptx::BitsOf(instruction.type());
  bool is_signed = ptx::IsSigned(instruction.type());
  bool carry_in = instruction.Is(Opcode::kAddc) || instruction.Is(Opcode::kSubc) ||
                  instruction.Is(Opcode::kMadc);
  bool subtract = instruction.Is(Opcode::kSub) || instruction.Is(Opcode::kSubc);
  Value* x = ReadInt(ops[1], bits, is_signed);
  Value* y = ReadInt(ops[2], bits, is_signed);
  if (instruction.Is(Opcode::kMad) || instruction.Is(Opcode::kMadc)) {
    if (instruction.mods.mul_mode == MulMode::kHi) {
      Value* wide = b_.CreateMul(Resize(x, 2 * bits, is_signed), Resize(y, 2 * bits, is_signed));
      x = Resize(b_.CreateLShr(wide, bits), bits);
    } else {
      x = b_.CreateMul(x, y);
    }
    y = ReadInt(ops[3], bits, is_signed);
  }
  ID id = subtract ? intrinsic::usub_with_overflow : intrinsic::uadd_with_overflow;
  Value* pair = b_.CreateBinaryIntrinsic(id, x, y);
  Value* result = b_.CreateExtractValue(pair, 0);
  Value* carry = b_.CreateExtractValue(pair, 1);
  if (carry_in) {
    Value* in = b_.CreateZExt(b_.CreateLoad(b_.getInt1Ty(), scope_->carry), IntOf(bits));
    Value* second = b_.CreateBinaryIntrinsic(id, result, in);
    result = b_.CreateExtractValue(second, 0);
    carry = b_.CreateOr(carry, b_.CreateExtractValue(second, 1));
  }
  if (instruction.mods.cc) b_.CreateStore(carry, scope_->carry);
  Write(ops[0], result);
  return true;
}

bool Emitter::EmitPackedInteger(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  bool is_signed = instruction.type() == Type::kS16x2;
  auto* vector = llvm::FixedVectorType::get(b_.getInt16Ty(), 2);
  Value* a = b_.CreateBitCast(ReadInt(ops[1], 32), vector);
  Value* b = ops.size() > 2 ? b_.CreateBitCast(ReadInt(ops[2], 32), vector) : nullptr;
  Value* result = nullptr;
  switch (instruction.opcode) {
    case Opcode::kAdd:
      result = instruction.mods.sat ? b_.CreateBinaryIntrinsic(intrinsic::sadd_sat, a, b)
                                    : b_.CreateAdd(a, b);
      break;
    case Opcode::kSub:
      result = instruction.mods.sat ? b_.CreateBinaryIntrinsic(intrinsic::ssub_sat, a, b)
                                    : b_.CreateSub(a, b);
      break;
    case Opcode::kNeg:
      result = b_.CreateNeg(a);
      break;
    case Opcode::kMin:
      result = b_.CreateBinaryIntrinsic(is_signed ? intrinsic::smin : intrinsic::umin, a, b);
      break;
    case Opcode::kMax:
      result = b_.CreateBinaryIntrinsic(is_signed ? intrinsic::smax : intrinsic::umax, a, b);
      break;
    default:
      return Unsupported(instruction);
  }
  if (instruction.mods.relu) {
    result =
        b_.CreateBinaryIntrinsic(intrinsic::smax, result, llvm::Constant::getNullValue(vector));
  }
  Write(ops[0], b_.CreateBitCast(result, b_.getInt32Ty()));
  return true;
}

// dp4a.atype.btype d, a, b, c: four byte products; dp2a: two 16-bit by the low or high two bytes of
// b.
bool Emitter::EmitDotProduct(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  bool a_signed = ptx::IsSigned(instruction.type(0)), b_signed = ptx::IsSigned(instruction.type(1));
  bool four = instruction.Is(Opcode::kDp4a);
  Value* a = ReadInt(ops[1], 32);
  Value* b = ReadInt(ops[2], 32);
  Value* sum = ReadInt(ops[3], 32);
  unsigned a_bits = four ? 8 : 16;
  unsigned first = instruction.mods.mul_mode == MulMode::kHi ? 2 : 0;
  for (unsigned i = 0; i < (four ? 4u : 2u); ++i) {
    Value* x = Resize(Resize(b_.CreateLShr(a, i * a_bits), a_bits), 32, a_signed);
    Value* y = Resize(Resize(b_.CreateLShr(b, (i + (four ? 0 : first)) * 8), 8), 32, b_signed);
    sum = b_.CreateAdd(sum, b_.CreateMul(x, y));
  }
  Write(ops[0], sum);
  return true;
}

}  // namespace farcall::cpu_device::jit
