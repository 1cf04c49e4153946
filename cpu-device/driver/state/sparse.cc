// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/sparse.h"

#include <sys/mman.h>

#include <cstring>

#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/memory/ranges.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLeast = 64 << 10;  // below, writing is cheaper than the call

void* At(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

// Gives whole pages back. Only of device memory: host memory may be a file's.
bool GiveBack(uint64_t begin, uint64_t end) {
  RangeKind kind;
  if (!TheDriver().ranges.KindOf(begin, end - begin, &kind)) return false;
  if (kind == RangeKind::kHost || kind == RangeKind::kHostRegistered || kind == RangeKind::kOpened)
    return false;
  if (TheDriver().arena->IsShared(begin, end - begin)) return false;
  // A piece of shared memory (cuMemCreate) is taken out of its file; private memory is dropped.
  if (kind == RangeKind::kReservation) return madvise(At(begin), end - begin, MADV_REMOVE) == 0;
  return madvise(At(begin), end - begin, MADV_DONTNEED) == 0;
}

}  // namespace

void SetZero(uint64_t address, uint64_t bytes) {
  const uint64_t begin = (address + kPage - 1) & ~(kPage - 1);
  const uint64_t end = (address + bytes) & ~(kPage - 1);
  const bool sparse = !kDeviceKind.executes && bytes >= kLeast && end > begin;
  if (!sparse || !GiveBack(begin, end)) {
    memset(At(address), 0, bytes);
    return;
  }
  memset(At(address), 0, begin - address);
  memset(At(end), 0, address + bytes - end);
}

}  // namespace farcall::cpu_device
