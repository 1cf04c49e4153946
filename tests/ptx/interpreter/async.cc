// SPDX-License-Identifier: Apache-2.0
// mbarrier, bulk copies, clusters. Bytes of a copy have come as soon as it is issued. What an
// mbarrier counts is kept beside memory, by the object's address.
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {

using ptx::Space;

namespace {

constexpr unsigned kRankShift = 20;  // of a .shared::cluster address: rank + 1, then the offset

}  // namespace

Mbarrier& Core::MbarrierAt(const Operand& operand, Space space) {
  uint8_t* at = Pointer(operand, space, 8, 8);
  auto it = block_.cluster().mbarriers.find(at);
  if (it == block_.cluster().mbarriers.end())
    throw Stop{RunStatus::kTrap, "no mbarrier was initialised here"};
  return it->second;
}

void Core::MoveOn(Mbarrier& object) {
  if (object.pending != 0 || object.bytes != 0) return;
  ++object.phases;
  object.pending = object.expected;
}

void Core::BytesHaveCome(const Operand& operand, Space space, int64_t bytes) {
  Mbarrier& object = MbarrierAt(operand, space);
  object.bytes -= bytes;
  MoveOn(object);
}

// The state is the number of phases that have ended, and in the upper half what is pending.
void Core::MbarrierArrive() {
  const bool of_copy = in_.opcode == Opcode::kCp;
  Mbarrier& object = MbarrierAt(Op(of_copy ? 0 : 1), mods_.space);
  uint32_t count = 1;
  if (of_copy) {
    if (!in_.Has("noinc")) ++object.pending;
  } else if (in_.Has("expect_tx")) {
    object.bytes += static_cast<int64_t>(Read(Op(2), Type::kU32));
  } else if (OperandCount() > 2) {
    count = static_cast<uint32_t>(Read(Op(2), Type::kU32));
  }
  const uint64_t state = object.phases | uint64_t{object.pending} << 32;
  if (count > object.pending) throw Stop{RunStatus::kTrap, "more arrivals than are pending"};
  if (in_.Part(1) == "arrive_drop") object.expected -= count;
  object.pending -= count;
  MoveOn(object);
  if (!of_copy) Write(Op(0), Type::kB64, state);
}

void Core::MbarrierOp() {
  const std::string_view what = in_.Part(in_.opcode == Opcode::kCp ? 3 : 1);
  if (what == "init") {
    const auto count = static_cast<uint32_t>(Read(Op(1), Type::kU32));
    if (count == 0) throw Stop{RunStatus::kTrap, "an mbarrier of no arrivals"};
    block_.cluster().mbarriers[Pointer(Op(0), mods_.space, 8, 8)] = {count, count, 0, 0};
  } else if (what == "inval") {
    block_.cluster().mbarriers.erase(Pointer(Op(0), mods_.space, 8, 8));
  } else if (what == "expect_tx") {
    MbarrierAt(Op(0), mods_.space).bytes += static_cast<int64_t>(Read(Op(1), Type::kU32));
  } else if (what == "complete_tx") {
    BytesHaveCome(Op(0), mods_.space, static_cast<int64_t>(Read(Op(1), Type::kU32)));
  } else if (what == "arrive" || what == "arrive_drop") {
    MbarrierArrive();
  } else if (what == "test_wait" || what == "try_wait") {
    const Mbarrier& object = MbarrierAt(Op(1), mods_.space);
    const bool by_parity = in_.Has("parity");
    const uint64_t asked = Read(Op(2), by_parity ? Type::kU32 : Type::kB64);
    WritePredicate(Op(0), by_parity ? (object.phases & 1) != (asked & 1)
                                    : object.phases != static_cast<uint32_t>(asked));
  } else if (what == "pending_count") {
    Write(Op(0), Type::kU32, Read(Op(1), Type::kB64) >> 32);
  } else {
    Unsupported();
  }
}

// cp.async.bulk and cp.reduce.async.bulk: [to], [from], bytes{, [mbarrier]{, blocks}}.
void Core::CopyBulk() {
  if (in_.Has("tensor") || in_.Has("cp_mask")) Unsupported();
  if (in_.Has("commit_group") || in_.Has("wait_group") || in_.Has("prefetch")) return;
  const uint64_t bytes = Read(Op(2), Type::kU32);
  if (bytes % 16) Invalid("a bulk copy of " + std::to_string(bytes) + " bytes");
  const uint8_t* from = Pointer(Op(1), mods_.space2, bytes, 16);
  const bool tells = in_.Has("mbarrier::complete_tx::bytes");
  if (in_.Has("multicast::cluster")) {
    const uint64_t ranks = Read(Op(4), Type::kB16);
    uint8_t* to = Pointer(Op(0), Space::kShared, bytes, 16);
    uint8_t* object = Pointer(Op(3), Space::kShared, 8, 8);
    Cluster& cluster = block_.cluster();
    for (size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
      if (!(ranks >> rank & 1)) continue;
      uint8_t* base = cluster.blocks[rank]->shared();
      std::memcpy(base + (to - block_.shared()), from, bytes);
      auto it = cluster.mbarriers.find(base + (object - block_.shared()));
      if (it == cluster.mbarriers.end()) throw Stop{RunStatus::kTrap, "no mbarrier there"};
      it->second.bytes -= static_cast<int64_t>(bytes);
      MoveOn(it->second);
    }
    return;
  }
  uint8_t* to = Pointer(Op(0), mods_.space, bytes, 16);
  if (in_.Part(1) == "reduce") {
    const unsigned width = ptx::BytesOf(in_.type());
    for (uint64_t at = 0; at < bytes; at += width) {
      uint64_t old = 0, operand = 0;
      std::memcpy(&old, to + at, width);
      std::memcpy(&operand, from + at, width);
      const uint64_t result = AtomicResult(in_.type(), old, operand, 0);
      std::memcpy(to + at, &result, width);
    }
  } else {
    std::memmove(to, from, bytes);
  }
  if (tells) BytesHaveCome(Op(3), mods_.space, static_cast<int64_t>(bytes));
}

uint8_t* Core::ClusterPointer(uint64_t address, uint64_t bytes) const {
  const Cluster& cluster = block_.cluster();
  const uint64_t rank = address >> kRankShift, offset = MaskBits(address, kRankShift);
  if (rank > cluster.blocks.size() || offset + bytes > block_.shared_bytes())
    throw Stop{RunStatus::kBadAddress, "shared::cluster address " + std::to_string(address)};
  return (rank ? cluster.blocks[rank - 1]->shared() : block_.shared()) + offset;
}

// Which block's shared memory a generic address lies in; its rank, or nothing.
bool Core::FindShared(uint64_t address, unsigned* rank) const {
  const Cluster& cluster = block_.cluster();
  for (*rank = 0; *rank < cluster.blocks.size(); ++*rank) {
    const auto base = reinterpret_cast<uint64_t>(cluster.blocks[*rank]->shared());
    if (address >= base && address < base + block_.shared_bytes()) return true;
  }
  return false;
}

void Core::ClusterAddress() {
  const bool generic = mods_.space == Space::kNone;
  const uint64_t address = Read(Op(1), generic ? Type::kB64 : in_.type());
  unsigned rank = block_.rank();
  if (in_.opcode == Opcode::kGetctarank) {
    if (!generic && address >> kRankShift) rank = static_cast<unsigned>(address >> kRankShift) - 1;
    if (generic && !FindShared(address, &rank)) Invalid("no shared address");
    Write(Op(0), Type::kU32, rank);
    return;
  }
  const uint64_t target = Read(Op(2), Type::kU32);
  if (target >= block_.cluster().blocks.size())
    throw Stop{RunStatus::kBadAddress, "mapa to block " + std::to_string(target)};
  if (!generic) {
    Write(Op(0), in_.type(), MaskBits(address, kRankShift) | (target + 1) << kRankShift);
    return;
  }
  if (!FindShared(address, &rank)) Invalid("no shared address");
  Write(Op(0), Type::kB64,
        address - reinterpret_cast<uint64_t>(block_.cluster().blocks[rank]->shared()) +
            reinterpret_cast<uint64_t>(block_.cluster().blocks[target]->shared()));
}

// A wait is over when every thread that lives has arrived as often as the waiting one.
void Core::ClusterBarrier() {
  if (mods_.barrier == ptx::BarrierOp::kArrive) {
    ++thread_.cluster_arrivals;
    return;
  }
  for (Block* block : block_.cluster().blocks) {
    for (const Thread& other : block->threads()) {
      if (other.state == ThreadState::kExited || other.cluster_arrivals >= thread_.cluster_arrivals)
        continue;
      jumped_ = true;  // again
      return;
    }
  }
}

bool Core::Asynchronous() {
  switch (in_.opcode) {
    case Opcode::kMbarrier:
      MbarrierOp();
      return true;
    case Opcode::kMapa:
    case Opcode::kGetctarank:
      ClusterAddress();
      return true;
    case Opcode::kBar:
    case Opcode::kBarrier:
      if (!mods_.cluster) return false;
      ClusterBarrier();
      return true;
    case Opcode::kCp:
      if (in_.Has("bulk"))
        CopyBulk();
      else if (in_.Part(2) == "mbarrier")
        MbarrierOp();
      else
        return false;
      return true;
    default:
      return false;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
