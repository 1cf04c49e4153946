// SPDX-License-Identifier: Apache-2.0
// What is asynchronous on a GPU is done at once here: a copy's bytes have come when the copying
// instruction ends, and its mbarrier knows.
#include "cpu-device/exec/runtime_async.h"

#include <bit>
#include <cstring>

#include "cpu-device/exec/cluster.h"
#include "cpu-device/exec/fault.h"
#include "cpu-device/exec/mbarrier.h"

namespace farcall::cpu_device {
namespace {

void Check(const char* error, uint32_t line) {
  if (error) RaiseFault(ExecStatus::kTrap, "%s (PTX line %u)", error, line);
}

extern "C" {

uint8_t* fc_rt_cluster_pointer(BlockContext* block, uint64_t address, uint32_t bytes,
                               uint32_t line) {
  if (address & (bytes - 1)) {
    RaiseFault(ExecStatus::kMisaligned,
               "misaligned %u-byte access to shared::cluster address 0x%llx (PTX line %u)", bytes,
               static_cast<unsigned long long>(address), line);
  }
  uint8_t* pointer = ClusterPointer(block, address, bytes);
  if (!pointer) {
    RaiseFault(ExecStatus::kIllegalAddress,
               "%u-byte access to shared::cluster address 0x%llx, a block of the cluster of %u has "
               "%llu bytes (PTX line %u)",
               bytes, static_cast<unsigned long long>(address), block->cluster->count,
               static_cast<unsigned long long>(block->shared_bytes), line);
  }
  return pointer;
}

void fc_rt_mbarrier_init(uint64_t* object, uint32_t count, uint32_t line) {
  Check(InitMbarrier(object, count), line);
}

void fc_rt_mbarrier_bytes(uint64_t* object, int64_t bytes, uint32_t line) {
  Check(AddMbarrierBytes(object, bytes), line);
}

// Returns the object as it was before.
uint64_t fc_rt_mbarrier_arrive(uint64_t* object, uint32_t count, uint32_t flags, uint32_t line) {
  uint64_t before = *object;
  Check(ArriveAtMbarrier(object, count, flags), line);
  return before;
}

// A range of a bulk copy.
uint8_t* fc_rt_bulk_range(BlockContext* block, uint64_t address, uint32_t bytes, uint32_t space,
                          uint32_t line) {
  if (address & 15 || bytes & 15) {
    RaiseFault(ExecStatus::kMisaligned,
               "bulk copy of %u bytes at 0x%llx: both must be multiples of 16 (PTX line %u)", bytes,
               static_cast<unsigned long long>(address), line);
  }
  if (space != kBulkGlobal) {
    uint8_t* pointer =
        space == kBulkShared && address >> 24 ? nullptr : ClusterPointer(block, address, bytes);
    if (pointer) return pointer;
    RaiseFault(ExecStatus::kIllegalAddress,
               "bulk copy of %u bytes at shared address 0x%llx, a block has %llu (PTX line %u)",
               bytes, static_cast<unsigned long long>(address),
               static_cast<unsigned long long>(block->shared_bytes), line);
  }
  for (uint64_t at = 0; at < bytes; at += 4096) CheckAccess(block, address + at, 16, line);
  if (bytes) CheckAccess(block, address + bytes - 16, 16, line);
  return reinterpret_cast<uint8_t*>(address);
}

void fc_rt_bulk_copy(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  memmove(to, from, bytes);
}

// The same offset in each block of `ranks`, and its mbarrier there.
void fc_rt_bulk_multicast(BlockContext* block, uint64_t to, const uint8_t* from, uint32_t bytes,
                          uint64_t object, uint32_t ranks, uint32_t line) {
  constexpr uint64_t kOffset = (1u << 24) - 1;
  for (; ranks; ranks &= ranks - 1) {
    const uint64_t rank = static_cast<uint64_t>(std::countr_zero(ranks)) + 1;
    const uint64_t high = rank << 24;
    uint8_t* there = fc_rt_bulk_range(block, high | (to & kOffset), bytes, kBulkCluster, line);
    memmove(there, from, bytes);
    fc_rt_mbarrier_bytes(reinterpret_cast<uint64_t*>(
                             fc_rt_cluster_pointer(block, high | (object & kOffset), 8, line)),
                         -static_cast<int64_t>(bytes), line);
  }
}

// mapa: the address in block `rank` that corresponds to `address`.
uint64_t fc_rt_mapa(BlockContext* block, uint64_t address, uint32_t rank, uint32_t generic,
                    uint32_t line) {
  const ClusterContext& cluster = *block->cluster;
  if (rank >= cluster.count) {
    RaiseFault(ExecStatus::kIllegalAddress, "mapa to block %u of a cluster of %u (PTX line %u)",
               rank, cluster.count, line);
  }
  if (!generic) return (address & ((1u << 24) - 1)) | uint64_t{rank + 1} << 24;
  const BlockContext* owner = OwnerOfShared(block, address, 0);
  if (!owner) owner = OwnerOfShared(block, address - 1, 0);  // one past the end
  if (!owner) {
    RaiseFault(ExecStatus::kIllegalAddress,
               "mapa of 0x%llx, which is no shared address (PTX line %u)",
               static_cast<unsigned long long>(address), line);
  }
  return address - reinterpret_cast<uint64_t>(owner->shared) +
         reinterpret_cast<uint64_t>(cluster.blocks[rank]->shared);
}

// getctarank; ~0 for an address that is in no block of the cluster.
uint32_t fc_rt_cta_rank(BlockContext* block, uint64_t address, uint32_t generic) {
  if (generic) {
    const BlockContext* owner = OwnerOfShared(block, address, 0);
    return owner ? owner->cluster_rank : ~0u;
  }
  const auto rank = static_cast<uint32_t>(address >> 24);
  if (rank == 0) return block->cluster_rank;
  return rank <= block->cluster->count ? rank - 1 : ~0u;
}

// cvta.shared::cluster and back.
uint64_t fc_rt_cluster_to_generic(BlockContext* block, uint64_t address, uint32_t line) {
  const bool own = address >> 24 == 0;
  if (own) return reinterpret_cast<uint64_t>(block->shared) + address;
  return reinterpret_cast<uint64_t>(fc_rt_cluster_pointer(block, address, 1, line));
}
uint64_t fc_rt_generic_to_cluster(BlockContext* block, uint64_t address) {
  const BlockContext* owner = OwnerOfShared(block, address, 0);
  if (!owner || owner == block) return address - reinterpret_cast<uint64_t>(block->shared);
  return (address - reinterpret_cast<uint64_t>(owner->shared)) | uint64_t{owner->cluster_rank + 1}
                                                                     << 24;
}
uint32_t fc_rt_in_cluster_shared(BlockContext* block, uint64_t address) {
  return OwnerOfShared(block, address, 0) != nullptr;
}

void fc_rt_cluster_arrive(BlockContext* block, ThreadContext* thread) {
  ClusterContext* cluster = block->cluster;
  thread->cluster_phase = cluster->phase;
  if (++cluster->arrived < cluster->live) return;
  cluster->arrived = 0;
  ++cluster->phase;
}
// Whether the phase the thread arrived in goes on.
uint32_t fc_rt_cluster_waits(BlockContext* block, ThreadContext* thread) {
  return thread->cluster_phase == block->cluster->phase;
}

}  // extern "C"

template <typename F>
RuntimeSymbol Symbol(std::string_view name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const RuntimeSymbol kSymbols[] = {
    Symbol("fc_rt_cluster_pointer", fc_rt_cluster_pointer),
    Symbol("fc_rt_mbarrier_init", fc_rt_mbarrier_init),
    Symbol("fc_rt_mbarrier_bytes", fc_rt_mbarrier_bytes),
    Symbol("fc_rt_mbarrier_arrive", fc_rt_mbarrier_arrive),
    Symbol("fc_rt_bulk_range", fc_rt_bulk_range),
    Symbol("fc_rt_bulk_copy", fc_rt_bulk_copy),
    Symbol("fc_rt_bulk_multicast", fc_rt_bulk_multicast),
    Symbol("fc_rt_mapa", fc_rt_mapa),
    Symbol("fc_rt_cta_rank", fc_rt_cta_rank),
    Symbol("fc_rt_cluster_to_generic", fc_rt_cluster_to_generic),
    Symbol("fc_rt_generic_to_cluster", fc_rt_generic_to_cluster),
    Symbol("fc_rt_in_cluster_shared", fc_rt_in_cluster_shared),
    Symbol("fc_rt_cluster_arrive", fc_rt_cluster_arrive),
    Symbol("fc_rt_cluster_waits", fc_rt_cluster_waits),
};

}  // namespace

const RuntimeSymbol* AsyncSymbols(unsigned* count) {
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
