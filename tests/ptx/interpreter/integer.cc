// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic, with and without carry, and bit fields.
#include <algorithm>
#include <bit>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

using Wide = __int128;
using UWide = unsigned __int128;

// The value as the type means it.
Wide Meaning(Type type, uint64_t bits) {
  if (ptx::IsSigned(type)) return SignExtend(bits, ptx::BitsOf(type));
  return static_cast<Wide>(static_cast<UWide>(MaskBits(bits, ptx::BitsOf(type))));
}

Wide Saturate32(Wide value) {
  return std::clamp<Wide>(value, INT32_MIN, INT32_MAX);
}

bool IsPackedInteger(Type type) {
  return type == Type::kU16x2 || type == Type::kS16x2;
}
Type LaneOf(Type type) {
  return type == Type::kU16x2 ? Type::kU16 : Type::kS16;
}

Wide Divide(Wide a, Wide b, bool remainder) {
  if (b == 0) return -1;  // the ISA leaves it open
  return remainder ? a % b : a / b;
}

Type Widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

int HighestBit(Type type, uint64_t bits) {
  const unsigned width = ptx::BitsOf(type);
  if (ptx::IsSigned(type) && SignExtend(bits, width) < 0) bits = ~bits;
  bits = MaskBits(bits, width);
  return bits == 0 ? -1 : 63 - std::countl_zero(bits);
}

uint32_t FindNth(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
  int64_t count = (offset > 0 ? int64_t{offset} : -int64_t{offset}) - 1;
  for (int64_t pos = base; pos >= 0 && pos<32; pos += offset> 0 ? 1 : -1) {
    if (!(mask >> pos & 1)) continue;
    if (count-- == 0) return static_cast<uint32_t>(pos);
  }
  return ~0u;
}

uint64_t ReverseBits(uint64_t value, unsigned width) {
  uint64_t out = 0;
  for (unsigned i = 0; i < width; ++i) out |= (value >> i & 1) << (width - 1 - i);
  return out;
}

uint64_t ExtractField(Type type, uint64_t a, unsigned pos, unsigned len) {
  const unsigned width = ptx::BitsOf(type), msb = width - 1;
  uint64_t sign = 0;
  if (ptx::IsSigned(type) && len != 0) sign = a >> std::min(pos + len - 1, msb) & 1;
  uint64_t out = 0;
  for (unsigned i = 0; i <= msb; ++i) {
    uint64_t bit = (i < len && pos + i <= msb) ? a >> (pos + i) & 1 : sign;
    out |= bit << i;
  }
  return out;
}

uint64_t InsertField(unsigned width, uint64_t a, uint64_t b, unsigned pos, unsigned len) {
  for (unsigned i = 0; i < len && pos + i < width; ++i) {
    b &= ~(1ull << (pos + i));
    b |= (a >> i & 1) << (pos + i);
  }
  return b;
}

uint32_t BitMask(uint32_t a, uint32_t b, bool clamp) {
  const uint32_t start = a & 31, sum = start + (b & 31);
  uint32_t mask0 = ~0u << start, mask1 = sum >= 32 ? 0 : ~0u << sum;
  if (clamp && a >= 32) mask0 = 0;
  if (clamp && b >= 32) mask1 = 0;
  return mask0 & ~mask1;
}

uint32_t SignOrZeroExtend(uint32_t a, uint32_t b, bool clamp, bool is_signed) {
  const uint32_t width = b & 31;
  const bool too_large = b >= 32 && clamp;
  const uint32_t mask = too_large ? 0 : ~0u << width;
  bool sign = is_signed && width != 0 && !too_large && (a >> (width - 1) & 1);
  return (a & ~mask) | (sign ? mask : 0);
}

}  // namespace

bool Core::Integer() {
  switch (in_.opcode) {
    case Opcode::kDp2a:
    case Opcode::kDp4a:
      return DotProduct();
    case Opcode::kAddc:
    case Opcode::kSubc:
    case Opcode::kMadc:
      return Carry(in_.type());
    default:
      break;
  }
  const Type type = in_.type();
  if (!ptx::IsInteger(type) && !IsPackedInteger(type)) return false;
  if (mods_.cc) return Carry(type);
  return IntegerArithmetic(type) || Multiply(type) || Bitfield(type);
}

bool Core::IntegerArithmetic(Type type) {
  auto one = [this](Type lane, uint64_t x, uint64_t y, Wide* out) {
    const Wide a = Meaning(lane, x), b = Meaning(lane, y);
    switch (in_.opcode) {
      case Opcode::kAdd:
        *out = mods_.sat ? Saturate32(a + b) : a + b;
        return true;
      case Opcode::kSub:
        *out = mods_.sat ? Saturate32(a - b) : a - b;
        return true;
      case Opcode::kMin:
        *out = std::min(a, b);
        break;
      case Opcode::kMax:
        *out = std::max(a, b);
        break;
      case Opcode::kDiv:
        *out = Divide(a, b, false);
        return true;
      case Opcode::kRem:
        *out = Divide(a, b, true);
        return true;
      case Opcode::kAbs:
        *out = a < 0 ? -a : a;
        return true;
      case Opcode::kNeg:
        *out = -a;
        return true;
      default:
        return false;
    }
    if (mods_.relu) *out = std::max<Wide>(*out, 0);
    return true;
  };
  switch (in_.opcode) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMin:
    case Opcode::kMax:
    case Opcode::kDiv:
    case Opcode::kRem:
    case Opcode::kAbs:
    case Opcode::kNeg:
      break;
    case Opcode::kSad: {
      Wide a = Meaning(type, Read(Op(1), type)), b = Meaning(type, Read(Op(2), type));
      Wide c = Meaning(type, Read(Op(3), type));
      Write(Op(0), type, static_cast<uint64_t>(c + (a < b ? b - a : a - b)));
      return true;
    }
    default:
      return false;
  }
  const bool unary = in_.opcode == Opcode::kAbs || in_.opcode == Opcode::kNeg;
  const uint64_t a = Read(Op(1), type), b = unary ? 0 : Read(Op(2), type);
  Wide result = 0;
  if (!IsPackedInteger(type)) {
    one(type, a, b, &result);
    Write(Op(0), type, static_cast<uint64_t>(result));
    return true;
  }
  uint64_t packed = 0;
  for (unsigned shift = 0; shift < 32; shift += 16) {
    one(LaneOf(type), a >> shift, b >> shift, &result);
    packed |= MaskBits(static_cast<uint64_t>(result), 16) << shift;
  }
  Write(Op(0), type, packed);
  return true;
}

bool Core::Multiply(Type type) {
  const unsigned width = ptx::BitsOf(type);
  const bool add = in_.opcode == Opcode::kMad || in_.opcode == Opcode::kMad24;
  const bool short_factors = in_.opcode == Opcode::kMul24 || in_.opcode == Opcode::kMad24;
  if (!add && in_.opcode != Opcode::kMul && in_.opcode != Opcode::kMul24) return false;
  uint64_t x = Read(Op(1), type), y = Read(Op(2), type);
  if (short_factors) {
    x = ptx::IsSigned(type) ? static_cast<uint64_t>(SignExtend(x, 24)) : MaskBits(x, 24);
    y = ptx::IsSigned(type) ? static_cast<uint64_t>(SignExtend(y, 24)) : MaskBits(y, 24);
  }
  // 64 x 64 bits fit 128 as two's complement, whichever sign the type has.
  UWide product = static_cast<UWide>(Meaning(type, x)) * static_cast<UWide>(Meaning(type, y));
  Type result_type = type;
  Wide value = 0;
  switch (mods_.mul_mode) {
    case ptx::MulMode::kWide:
      result_type = Widened(type);
      value = static_cast<Wide>(product);
      break;
    case ptx::MulMode::kHi: {
      unsigned shift = short_factors ? 16 : width;
      bool is_signed = ptx::IsSigned(type);
      value = is_signed ? static_cast<Wide>(product) >> shift : static_cast<Wide>(product >> shift);
      break;
    }
    default:
      value = static_cast<Wide>(product);
      break;
  }
  if (add) {
    Wide c = Meaning(result_type, Read(Op(3), result_type));
    if (mods_.sat)
      value = Saturate32(Meaning(type, static_cast<uint64_t>(value)) + c);
    else
      value = static_cast<Wide>(static_cast<UWide>(value) + static_cast<UWide>(c));
  }
  Write(Op(0), result_type, static_cast<uint64_t>(value));
  return true;
}

// add.cc addc sub.cc subc mad.cc madc: the carry is that of the unsigned addition.
bool Core::Carry(Type type) {
  const unsigned width = ptx::BitsOf(type);
  const bool use =
      in_.opcode == Opcode::kAddc || in_.opcode == Opcode::kSubc || in_.opcode == Opcode::kMadc;
  const uint64_t in = use && thread_.carry ? 1 : 0;
  uint64_t a = Read(Op(1), type), b = Read(Op(2), type);
  UWide sum = 0;
  switch (in_.opcode) {
    case Opcode::kAdd:
    case Opcode::kAddc:
      sum = static_cast<UWide>(a) + b + in;
      break;
    case Opcode::kSub:
    case Opcode::kSubc:
      sum = static_cast<UWide>(a) - b - in;
      break;
    case Opcode::kMad:
    case Opcode::kMadc: {
      UWide product = static_cast<UWide>(Meaning(type, a)) * static_cast<UWide>(Meaning(type, b));
      if (mods_.mul_mode == ptx::MulMode::kHi) product >>= width;
      sum = static_cast<UWide>(MaskBits(static_cast<uint64_t>(product), width)) +
            Read(Op(3), type) + in;
      break;
    }
    default:
      return false;
  }
  if (mods_.cc) thread_.carry = (sum >> width & 1) != 0;
  Write(Op(0), type, static_cast<uint64_t>(sum));
  return true;
}

bool Core::Bitfield(Type type) {
  const unsigned width = ptx::BitsOf(type);
  auto small = [this](size_t i) { return static_cast<unsigned>(Read(Op(i), Type::kU32) & 0xff); };
  const bool clamp = mods_.shift_mode == ptx::ShiftMode::kClamp;
  switch (in_.opcode) {
    case Opcode::kPopc:
      Write(Op(0), Type::kU32, static_cast<uint64_t>(std::popcount(Read(Op(1), type))));
      return true;
    case Opcode::kClz: {
      uint64_t a = Read(Op(1), type);
      Write(Op(0), Type::kU32, static_cast<uint64_t>(std::countl_zero(a)) - (64 - width));
      return true;
    }
    case Opcode::kBfind: {
      int bit = HighestBit(type, Read(Op(1), type));
      if (mods_.shiftamt && bit >= 0) bit = static_cast<int>(width) - 1 - bit;
      Write(Op(0), Type::kU32, static_cast<uint64_t>(static_cast<int64_t>(bit)));
      return true;
    }
    case Opcode::kFns:
      Write(Op(0), Type::kU32,
            FindNth(static_cast<uint32_t>(Read(Op(1), Type::kB32)),
                    static_cast<uint32_t>(Read(Op(2), Type::kB32)),
                    static_cast<int32_t>(Read(Op(3), Type::kB32))));
      return true;
    case Opcode::kBrev:
      Write(Op(0), type, ReverseBits(Read(Op(1), type), width));
      return true;
    case Opcode::kBfe:
      Write(Op(0), type, ExtractField(type, Read(Op(1), type), small(2), small(3)));
      return true;
    case Opcode::kBfi:
      Write(Op(0), type,
            InsertField(width, Read(Op(1), type), Read(Op(2), type), small(3), small(4)));
      return true;
    case Opcode::kBmsk:
      Write(Op(0), type,
            BitMask(static_cast<uint32_t>(Read(Op(1), Type::kB32)),
                    static_cast<uint32_t>(Read(Op(2), Type::kB32)), clamp));
      return true;
    case Opcode::kSzext:
      Write(Op(0), type,
            SignOrZeroExtend(static_cast<uint32_t>(Read(Op(1), type)),
                             static_cast<uint32_t>(Read(Op(2), Type::kU32)), clamp,
                             ptx::IsSigned(type)));
      return true;
    default:
      return false;
  }
}

// dp4a: four bytes by four bytes. dp2a: two halves by the low or high two bytes.
bool Core::DotProduct() {
  const bool signed_a = ptx::IsSigned(in_.type(0)), signed_b = ptx::IsSigned(in_.type(1));
  const uint64_t a = Read(Op(1), Type::kB32), b = Read(Op(2), Type::kB32);
  auto part = [](uint64_t value, unsigned at, unsigned bits, bool is_signed) {
    uint64_t field = MaskBits(value >> at, bits);
    return is_signed ? SignExtend(field, bits) : static_cast<int64_t>(field);
  };
  int64_t sum = static_cast<int64_t>(Read(Op(3), Type::kB32));
  if (in_.opcode == Opcode::kDp4a) {
    for (unsigned i = 0; i < 4; ++i)
      sum += part(a, 8 * i, 8, signed_a) * part(b, 8 * i, 8, signed_b);
  } else {
    const unsigned first = mods_.mul_mode == ptx::MulMode::kHi ? 16 : 0;
    for (unsigned i = 0; i < 2; ++i)
      sum += part(a, 16 * i, 16, signed_a) * part(b, first + 8 * i, 8, signed_b);
  }
  Write(Op(0), Type::kB32, static_cast<uint64_t>(sum));
  return true;
}

}  // namespace farcall::cpu_device::ptx_interpreter
