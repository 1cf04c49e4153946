// SPDX-License-Identifier: Apache-2.0
// Loads, stores, moves, address conversion, asynchronous copies (done at once).
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {

using ptx::Space;

void Core::Load() {
  const Type type = in_.type();
  const uint64_t width = ptx::BytesOf(type), count = mods_.vector;
  const uint8_t* at = Pointer(Op(1), mods_.space, width * count, width * count);
  for (uint64_t i = 0; i < count; ++i) {
    const Operand& dst = count > 1 ? Op(0).elements.at(i) : Op(0);
    uint64_t parts[2] = {0, 0};
    std::memcpy(parts, at + i * width, width);
    if (dst.Is(Kind::kSink)) continue;
    if (dst.Is(Kind::kVector)) Invalid("vector destination of a scalar load");
    Write(dst, type, parts[0]);
    if (type == Type::kB128) Register(dst) = {parts[0], parts[1]};
  }
}

void Core::Store() {
  const Type type = in_.type();
  const uint64_t width = ptx::BytesOf(type), count = mods_.vector;
  uint8_t* at = Pointer(Op(0), mods_.space, width * count, width * count);
  for (uint64_t i = 0; i < count; ++i) {
    const Operand& src = count > 1 ? Op(1).elements.at(i) : Op(1);
    uint64_t parts[2] = {0, 0};
    if (type == Type::kB128) {
      parts[0] = Register(src).lo;
      parts[1] = Register(src).hi;
    } else {
      parts[0] = Read(src, type);
    }
    std::memcpy(at + i * width, parts, width);
  }
}

// Shared memory has addresses of its own; the other spaces' addresses are generic already.
void Core::AddressConversion() {
  const Type type = in_.type();
  uint64_t value = 0;
  // cvta of a variable names its address within the space.
  value = Read(Op(1), type);
  unsigned rank = 0;
  const bool other = mods_.to && mods_.space == Space::kShared && FindShared(value, &rank);
  if (mods_.space == Space::kSharedCluster || other) {
    if (!mods_.to) {
      value = reinterpret_cast<uint64_t>(ClusterPointer(value, 0));
    } else if (FindShared(value, &rank)) {
      const uint64_t base = reinterpret_cast<uint64_t>(block_.cluster().blocks[rank]->shared());
      value = (value - base) | (rank == block_.rank() ? 0 : uint64_t{rank + 1} << 20);
    }
  } else if (mods_.space == Space::kShared) {
    const uint64_t base = reinterpret_cast<uint64_t>(block_.shared());
    value = mods_.to ? value - base : value + base;
  }
  Write(Op(0), type, value);
}

void Core::Move() {
  const Type type = in_.type();
  const Operand &dst = Op(0), &src = Op(1);
  if (type == Type::kB128) {
    if (dst.Is(Kind::kVector)) {
      Write(dst.elements.at(0), Type::kB64, Register(src).lo);
      Write(dst.elements.at(1), Type::kB64, Register(src).hi);
    } else if (src.Is(Kind::kVector)) {
      Register(dst) = {Register(src.elements.at(0)).lo, Register(src.elements.at(1)).lo};
    } else {
      Register(dst) = Register(src);
    }
    return;
  }
  if (dst.Is(Kind::kVector)) {
    const unsigned each = ptx::BitsOf(type) / static_cast<unsigned>(dst.elements.size());
    uint64_t value = Read(src, type);
    for (const Operand& element : dst.elements) {
      if (!element.Is(Kind::kSink)) Register(element) = {MaskBits(value, each), 0};
      value = each >= 64 ? 0 : value >> each;
    }
    return;
  }
  Write(dst, type, Read(src, type));
}

// cp.async.{ca,cg}.shared.global [dst], [src], size{, source size or predicate}
void Core::CopyAsync() {
  if (in_.Has("reduce")) Unsupported();
  if (in_.Has("commit_group") || in_.Has("wait_group") || in_.Has("wait_all")) return;
  const uint64_t size = Read(Op(2), Type::kU32);
  uint64_t given = size;
  if (OperandCount() > 3) {
    bool predicate = RegisterType(Op(3)) == Type::kPred;
    given = predicate ? (ReadPredicate(Op(3)) ? 0 : size) : Read(Op(3), Type::kU32);
  }
  if (given > size) Invalid("source size exceeds the copy size");
  uint8_t* dst = Pointer(Op(0), Space::kShared, size, size);
  std::memset(dst, 0, size);
  if (given) std::memcpy(dst, Pointer(Op(1), Space::kGlobal, given, size), given);
}

bool Core::Memory() {
  switch (in_.opcode) {
    case Opcode::kLd:
    case Opcode::kLdu:
      Load();
      return true;
    case Opcode::kSt:
      if (in_.Has("bulk")) Unsupported();
      Store();
      if (mods_.async) {
        BytesHaveCome(in_.operands.back(), mods_.space,
                      int64_t{ptx::BytesOf(in_.type())} * mods_.vector);
      }
      return true;
    case Opcode::kMov:
      Move();
      return true;
    case Opcode::kCvta:
      AddressConversion();
      return true;
    case Opcode::kCp:
      CopyAsync();
      return true;
    case Opcode::kIsspacep: {
      const uint64_t address = Read(Op(1), Type::kB64);
      const uint64_t base = reinterpret_cast<uint64_t>(block_.shared());
      bool shared = address >= base && address < base + block_.shared_bytes();
      unsigned rank = 0;
      if (mods_.space == Space::kSharedCluster) shared = FindShared(address, &rank);
      bool local = false;
      for (const Frame& frame : thread_.frames) {
        uint64_t start = reinterpret_cast<uint64_t>(frame.storage.get());
        local |= address >= start && address < start + frame.storage_bytes;
      }
      bool answer = mods_.space == Space::kShared || mods_.space == Space::kSharedCluster ? shared
                    : mods_.space == Space::kLocal                                        ? local
                    : mods_.space == Space::kGlobal ? !shared && !local
                                                    : false;
      WritePredicate(Op(0), answer);
      return true;
    }
    // One thread runs at a time and memory is coherent: nothing to order, nothing to fetch ahead.
    case Opcode::kMembar:
    case Opcode::kFence:
    case Opcode::kPrefetch:
    case Opcode::kPrefetchu:
    case Opcode::kDiscard:
    case Opcode::kApplypriority:
      return true;
    case Opcode::kCreatepolicy:
      Write(Op(0), Type::kB64, 0);
      return true;
    default:
      return false;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
