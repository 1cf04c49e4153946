// SPDX-License-Identifier: Apache-2.0
// Operand values, register writes, addresses.
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {

using ptx::Space;
using ptx::SpecialRegister;

void Core::Unsupported(const std::string& what) const {
  throw Stop{RunStatus::kUnsupported,
             "'" + std::string(in_.mnemonic) + "'" + (what.empty() ? "" : ": " + what)};
}

void Core::Invalid(const std::string& what) const {
  throw Stop{RunStatus::kInvalid, "'" + std::string(in_.mnemonic) + "': " + what};
}

const Operand& Core::Op(size_t i) const {
  if (i >= in_.operands.size()) Invalid("too few operands");
  return in_.operands[i];
}

Reg& Core::Register(const Operand& operand) const {
  if (!operand.Is(Kind::kRegister)) Invalid("expected a register");
  return thread_.frame().regs[operand.reg];
}

Type Core::RegisterType(const Operand& operand) const {
  if (!operand.Is(Kind::kRegister)) return Type::kNone;
  return thread_.frame().function->registers[operand.reg].type;
}

uint64_t Core::ReadImmediate(const Operand& operand, Type type) const {
  uint64_t bits = static_cast<uint64_t>(operand.value);
  if (operand.Is(Kind::kInteger)) {
    if (type == Type::kF32) return Bits(static_cast<float>(operand.value));
    if (type == Type::kF64) return Bits(static_cast<double>(operand.value));
    return bits;
  }
  double value = operand.float_type == Type::kF32 ? AsFloat(bits) : AsDouble(bits);
  switch (type) {
    case Type::kF64:
    case Type::kB64:
      return operand.float_type == Type::kF64 || type == Type::kF64 ? Bits(value) : bits;
    case Type::kF32:
    case Type::kB32:
      return operand.float_type == Type::kF32 ? bits : Bits(static_cast<float>(value));
    case Type::kF16:
      return Encode(kHalf, value, Round::kNearest);
    case Type::kBf16:
      return Encode(kBfloat, value, Round::kNearest);
    default:
      Invalid("floating literal for type " + std::string(ptx::Name(type)));
  }
}

// Low bits of the operand, as `type` sees them; upper bits are zero.
uint64_t Core::Read(const Operand& operand, Type type) const {
  const unsigned bits = ptx::BitsOf(type);
  switch (operand.kind) {
    case Kind::kRegister: {
      uint64_t value = MaskBits(Register(operand).lo, bits);
      return operand.negated ? value ^ 1 : value;
    }
    case Kind::kInteger:
    case Kind::kFloat:
      return MaskBits(ReadImmediate(operand, type), bits);
    case Kind::kSpecialRegister:
      return MaskBits(ReadSpecial(operand), bits);
    case Kind::kSymbol:
      if (operand.function) return reinterpret_cast<uint64_t>(operand.function);
      return block_.AddressOf(thread_, *operand.variable) + static_cast<uint64_t>(operand.value);
    case Kind::kVector: {
      // {lo, hi} as one wide value: packed operands of mov and x2 instructions.
      uint64_t value = 0;
      const unsigned each = bits / static_cast<unsigned>(operand.elements.size());
      for (size_t i = operand.elements.size(); i-- > 0;) {
        const Operand& element = operand.elements[i];
        uint64_t part = element.Is(Kind::kRegister)  ? Register(element).lo
                        : element.Is(Kind::kInteger) ? static_cast<uint64_t>(element.value)
                                                     : Read(element, type);
        value = (each >= 64 ? 0 : value << each) | MaskBits(part, each);
      }
      return value;
    }
    default:
      Invalid("unexpected operand");
  }
}

// A register wider than `type` receives the value extended by the type's sign.
void Core::Write(const Operand& operand, Type type, uint64_t bits) {
  if (operand.Is(Kind::kSink) || operand.Is(Kind::kNone)) return;
  Reg& reg = Register(operand);
  const unsigned width = ptx::BitsOf(type), held = ptx::BitsOf(RegisterType(operand));
  uint64_t value =
      ptx::IsSigned(type) ? static_cast<uint64_t>(SignExtend(bits, width)) : MaskBits(bits, width);
  reg.lo = MaskBits(value, held);
  reg.hi = 0;
}

// Long: a flat switch over PTX's special registers.
uint64_t Core::ReadSpecial(const Operand& operand) const {
  const LaunchConfig& c = block_.config();
  const unsigned lane = thread_.lane();
  const uint32_t bit = 1u << lane;
  const unsigned threads = static_cast<unsigned>(block_.threads().size());
  switch (operand.special) {
    case SpecialRegister::kTidX:
      return thread_.tid.x;
    case SpecialRegister::kTidY:
      return thread_.tid.y;
    case SpecialRegister::kTidZ:
      return thread_.tid.z;
    case SpecialRegister::kNtidX:
      return c.block.x;
    case SpecialRegister::kNtidY:
      return c.block.y;
    case SpecialRegister::kNtidZ:
      return c.block.z;
    case SpecialRegister::kCtaidX:
      return block_.index().x;
    case SpecialRegister::kCtaidY:
      return block_.index().y;
    case SpecialRegister::kCtaidZ:
      return block_.index().z;
    case SpecialRegister::kNctaidX:
      return c.grid.x;
    case SpecialRegister::kNctaidY:
      return c.grid.y;
    case SpecialRegister::kNctaidZ:
      return c.grid.z;
    case SpecialRegister::kNclusteridX:
      return c.grid.x / c.cluster.x;
    case SpecialRegister::kNclusteridY:
      return c.grid.y / c.cluster.y;
    case SpecialRegister::kNclusteridZ:
      return c.grid.z / c.cluster.z;
    case SpecialRegister::kClusteridX:
      return block_.index().x / c.cluster.x;
    case SpecialRegister::kClusteridY:
      return block_.index().y / c.cluster.y;
    case SpecialRegister::kClusteridZ:
      return block_.index().z / c.cluster.z;
    case SpecialRegister::kClusterCtaidX:
      return block_.index().x % c.cluster.x;
    case SpecialRegister::kClusterCtaidY:
      return block_.index().y % c.cluster.y;
    case SpecialRegister::kClusterCtaidZ:
      return block_.index().z % c.cluster.z;
    case SpecialRegister::kClusterNctaidX:
      return c.cluster.x;
    case SpecialRegister::kClusterNctaidY:
      return c.cluster.y;
    case SpecialRegister::kClusterNctaidZ:
      return c.cluster.z;
    case SpecialRegister::kClusterCtarank:
      return block_.rank();
    case SpecialRegister::kClusterNctarank:
      return c.cluster.x * c.cluster.y * c.cluster.z;
    case SpecialRegister::kIsExplicitCluster:
      return c.cluster.x * c.cluster.y * c.cluster.z != 1;
    case SpecialRegister::kLaneid:
      return lane;
    case SpecialRegister::kWarpid:
      return thread_.linear / kWarpSize;
    case SpecialRegister::kNwarpid:
      return (threads + kWarpSize - 1) / kWarpSize;
    case SpecialRegister::kNsmid:
      return 1;
    case SpecialRegister::kLanemaskEq:
      return bit;
    case SpecialRegister::kLanemaskLt:
      return bit - 1;
    case SpecialRegister::kLanemaskLe:
      return bit | (bit - 1);
    case SpecialRegister::kLanemaskGt:
      return ~(bit | (bit - 1));
    case SpecialRegister::kLanemaskGe:
      return ~(bit - 1);
    case SpecialRegister::kClock:
    case SpecialRegister::kClock64:
    case SpecialRegister::kGlobaltimer:
    case SpecialRegister::kGlobaltimerLo:
      return block_.Clock();
    case SpecialRegister::kClockHi:
    case SpecialRegister::kGlobaltimerHi:
      return block_.Clock() >> 32;
    case SpecialRegister::kTotalSmemSize:
    case SpecialRegister::kAggrSmemSize:
      return block_.shared_bytes();
    case SpecialRegister::kDynamicSmemSize:
      return c.dynamic_shared_bytes;
    // One SM, one grid, nothing in the environment registers.
    default:
      return 0;
  }
}

// The space an access goes to: as named, or of the variable addressed.
Space Core::SpaceOf(const Operand& operand, Space named) const {
  if (named != Space::kNone) return named;
  if (operand.Is(Kind::kAddress) && operand.variable) return operand.variable->space;
  return Space::kNone;
}

uint8_t* Core::Translate(uint64_t address, Space space, uint64_t bytes, uint64_t align) const {
  if (align && address % align) {
    throw Stop{RunStatus::kBadAddress, "'" + std::string(in_.mnemonic) + "': misaligned address " +
                                           std::to_string(address) + ", " + std::to_string(align) +
                                           " needed"};
  }
  if (space == Space::kShared) {
    if (address > block_.shared_bytes() || bytes > block_.shared_bytes() - address) {
      throw Stop{RunStatus::kBadAddress, "'" + std::string(in_.mnemonic) + "': shared address " +
                                             std::to_string(address) + " of " +
                                             std::to_string(block_.shared_bytes())};
    }
    return block_.shared() + address;
  }
  if (space == Space::kSharedCluster) return ClusterPointer(address, bytes);
  constexpr uint64_t kNullPage = 4096;
  if (address < kNullPage) {
    throw Stop{RunStatus::kBadAddress,
               "'" + std::string(in_.mnemonic) + "': null address " + std::to_string(address)};
  }
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* Core::Pointer(const Operand& operand, Space space, uint64_t bytes, uint64_t align) const {
  if (!operand.Is(Kind::kAddress)) Invalid("expected an address");
  uint64_t base = static_cast<uint64_t>(operand.value);
  space = SpaceOf(operand, space);
  if (operand.variable) {
    base += block_.AddressOf(thread_, *operand.variable);
  } else if (operand.reg != ptx::kNoRegister) {
    const Reg& reg = thread_.frame().regs[operand.reg];
    base += MaskBits(reg.lo, ptx::BitsOf(thread_.frame().function->registers[operand.reg].type));
    if (space == Space::kShared || space == Space::kSharedCluster) base = MaskBits(base, 32);
  }
  return Translate(base, space, bytes, align);
}

}  // namespace farcall::cpu_device::ptx_interpreter
