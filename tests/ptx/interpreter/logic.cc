// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and byte permutation.
#include <algorithm>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

uint32_t LookUp3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t out = 0;
  for (unsigned i = 0; i < 32; ++i) {
    unsigned row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
    out |= (table >> row & 1) << i;
  }
  return out;
}

uint64_t Shift(Opcode opcode, Type type, uint64_t a, uint64_t amount) {
  const unsigned width = ptx::BitsOf(type);
  if (opcode == Opcode::kShl) return amount >= width ? 0 : a << amount;
  if (ptx::IsSigned(type))
    return static_cast<uint64_t>(SignExtend(a, width) >> std::min<uint64_t>(amount, width - 1));
  return amount >= width ? 0 : a >> amount;
}

uint32_t Funnel(uint32_t a, uint32_t b, uint32_t amount, bool left, bool wrap) {
  const uint32_t n = wrap ? amount & 31 : std::min(amount, 32u);
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  return static_cast<uint32_t>(left ? (both << n) >> 32 : both >> n);
}

unsigned SelectByte(ptx::PermuteMode mode, uint32_t selector, unsigned i) {
  const unsigned n = selector & 3;
  switch (mode) {
    case ptx::PermuteMode::kF4e:
      return (n + i) & 7;
    case ptx::PermuteMode::kB4e:
      return (n + 8 - i) & 7;
    case ptx::PermuteMode::kRc8:
      return n;
    case ptx::PermuteMode::kEcl:
      return std::max(n, i);
    case ptx::PermuteMode::kEcr:
      return std::min(n, i);
    case ptx::PermuteMode::kRc16:
      return (n & 1) * 2 + (i & 1);
    default:
      return selector >> (4 * i) & 15;
  }
}

uint32_t Permute(ptx::PermuteMode mode, uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned pick = SelectByte(mode, selector, i);
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (pick & 7)) & 0xff);
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;  // replicate the sign
    out |= byte << (8 * i);
  }
  return out;
}

}  // namespace

bool Core::Logic() {
  const Type type = in_.type();
  auto word = [this](size_t i) { return static_cast<uint32_t>(Read(Op(i), Type::kB32)); };
  switch (in_.opcode) {
    case Opcode::kAnd:
      Write(Op(0), type, Read(Op(1), type) & Read(Op(2), type));
      return true;
    case Opcode::kOr:
      Write(Op(0), type, Read(Op(1), type) | Read(Op(2), type));
      return true;
    case Opcode::kXor:
      Write(Op(0), type, Read(Op(1), type) ^ Read(Op(2), type));
      return true;
    case Opcode::kNot:
      Write(Op(0), type, ~Read(Op(1), type));
      return true;
    case Opcode::kCnot:
      Write(Op(0), type, Read(Op(1), type) == 0);
      return true;
    case Opcode::kShl:
    case Opcode::kShr:
      Write(Op(0), type, Shift(in_.opcode, type, Read(Op(1), type), Read(Op(2), Type::kU32)));
      return true;
    case Opcode::kVshl:
    case Opcode::kVshr: {
      // Only whole words, and one second operation.
      const std::string_view second = in_.Part(5);
      const bool plain = mods_.type_count == 3 && mods_.types[1] == type && !mods_.sat;
      if (!plain || (OperandCount() == 4) == second.empty()) Unsupported();
      const unsigned by = mods_.shift_mode == ptx::ShiftMode::kWrap ? word(2) % 32
                          : word(2) > 32                            ? 32
                                                                    : word(2);
      const int64_t a = ptx::IsSigned(type) ? SignExtend(word(1), 32) : int64_t{word(1)};
      auto result = static_cast<uint32_t>(in_.opcode == Opcode::kVshl
                                              ? static_cast<int64_t>(static_cast<uint64_t>(a) << by)
                                              : a >> by);
      if (!second.empty()) {
        const uint32_t c = word(3);
        const bool less = ptx::IsSigned(type)
                              ? static_cast<int32_t>(result) < static_cast<int32_t>(c)
                              : result < c;
        if (second != "add" && second != "min" && second != "max") Unsupported();
        result = second == "add" ? result + c : (second == "min") == less ? result : c;
      }
      Write(Op(0), Type::kB32, result);
      return true;
    }
    case Opcode::kShf:
      Write(Op(0), type,
            Funnel(word(1), word(2), word(3), mods_.shift_left,
                   mods_.shift_mode == ptx::ShiftMode::kWrap));
      return true;
    case Opcode::kPrmt:
      Write(Op(0), type, Permute(mods_.permute, word(1), word(2), word(3)));
      return true;
    case Opcode::kLop3: {
      uint32_t value = LookUp3(word(1), word(2), word(3), word(4));
      Write(Op(0), type, value);
      if (mods_.bool_op != ptx::BoolOp::kNone)
        WritePredicate(in_.second_dst, Combine(value != 0, 5));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
