// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

uint64_t Charged(uint64_t bytes) {
  return (bytes + 511) & ~511ull;
}

uint64_t Pages(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) & ~(page - 1);
}

bool Exportable(const MemPool* pool) {
  return pool != nullptr && pool->handle_types() != CU_MEM_HANDLE_TYPE_NONE;
}

// What the host may touch at any time, and what is shared from its first byte, has no small page in
// common with memory that may have to move into one that is shared.
bool KeepsApart(RangeKind kind, const MemPool* pool) {
  return kind == RangeKind::kManaged || kind == RangeKind::kGlobal || Exportable(pool);
}

uint64_t ArenaBytes(uint64_t bytes, RangeKind kind, const MemPool* pool) {
  return KeepsApart(kind, pool) ? (bytes + kSharedPage - 1) & ~(kSharedPage - 1) : bytes;
}

void Release(const Range& range) {
  Driver& driver = TheDriver();
  switch (range.kind) {
    case RangeKind::kDevice:
    case RangeKind::kManaged:
    case RangeKind::kPool:
    case RangeKind::kGlobal:
      driver.arena->Free(range.start, ArenaBytes(range.bytes, range.kind, range.pool.get()));
      driver.devices[static_cast<size_t>(range.device)]->Refund(Charged(range.bytes));
      break;
    case RangeKind::kHost:
      munmap(reinterpret_cast<void*>(range.start), Pages(range.bytes));
      break;
    case RangeKind::kHostRegistered:
    case RangeKind::kReservation:
    case RangeKind::kOpened:
      break;
  }
}

}  // namespace

CUresult AllocateDevice(Context& context, uint64_t bytes, RangeKind kind, unsigned flags,
                        std::shared_ptr<MemPool> pool, uint64_t* address, uint64_t align) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Device& device = context.device();
  if (bytes > device.total() || !device.Charge(Charged(bytes))) {
    Log(LogLevel::kInfo, "device memory: asked %llu bytes, %llu free of %llu",
        static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(device.total() - device.used()),
        static_cast<unsigned long long>(device.total()));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Arena& arena = *TheDriver().arena;
  const uint64_t arena_bytes = ArenaBytes(bytes, kind, pool.get());
  if (KeepsApart(kind, pool.get())) align = std::max(align, kSharedPage);
  *address = arena.Allocate(arena_bytes, align);
  if (*address == 0) {
    device.Refund(Charged(bytes));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Nobody knows it yet, so nobody touches it.
  if (Exportable(pool.get()) && !arena.Share(*address, arena_bytes)) {
    arena.Free(*address, arena_bytes);
    device.Refund(Charged(bytes));
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  Range range;
  range.start = *address;
  range.bytes = bytes;
  range.kind = kind;
  range.device = device.ordinal;
  range.context = &context;
  range.flags = flags;
  range.pool = std::move(pool);
  TheDriver().ranges.Add(std::move(range));
  return CUDA_SUCCESS;
}

CUresult FreeDevice(uint64_t address, std::initializer_list<RangeKind> kinds) {
  Range range;
  const auto wanted = [&](const Range& r) {
    return std::find(kinds.begin(), kinds.end(), r.kind) != kinds.end();
  };
  if (!TheDriver().ranges.Take(address, &range, wanted)) return CUDA_ERROR_INVALID_VALUE;
  Release(range);
  return CUDA_SUCCESS;
}

CUresult AllocateHost(Context& context, uint64_t bytes, unsigned flags, void** pointer) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory =
      mmap(nullptr, Pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.start = reinterpret_cast<uint64_t>(memory);
  range.bytes = bytes;
  range.kind = RangeKind::kHost;
  range.device = context.device().ordinal;
  range.context = &context;
  range.flags = flags;
  TheDriver().ranges.Add(std::move(range));
  *pointer = memory;
  return CUDA_SUCCESS;
}

CUresult FreeHost(void* pointer) {
  Range range;
  const auto wanted = [](const Range& r) { return r.kind == RangeKind::kHost; };
  if (!TheDriver().ranges.Take(reinterpret_cast<uint64_t>(pointer), &range, wanted))
    return CUDA_ERROR_INVALID_VALUE;
  Release(range);
  return CUDA_SUCCESS;
}

void FreeContextMemory(const Context* context) {
  for (const Range& range : TheDriver().ranges.TakeContext(context)) Release(range);
}

}  // namespace farcall::cpu_device
