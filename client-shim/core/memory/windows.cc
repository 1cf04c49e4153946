// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/windows.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace farcall::client {

namespace {
constexpr uint64_t kGiB = 1ull << 30, kTiB = 1ull << 40;
constexpr Window kCandidates[] = {
    {0x200000000000, 8 * kTiB},  {0x300000000000, 4 * kTiB}, {0x100000000000, 4 * kTiB},
    {0x400000000000, kTiB},      {0x280000000000, 4 * kTiB}, {0x380000000000, 4 * kTiB},
    {0x180000000000, 4 * kTiB},  {0x480000000000, 4 * kTiB}, {0x2c0000000000, 4 * kTiB},
    {0x3c0000000000, 4 * kTiB},  {0x140000000000, 4 * kTiB}, {0x440000000000, 4 * kTiB},
    {0x20000000000, 256 * kGiB}, {0x300000000, 64 * kGiB},
};
constexpr size_t kMaxOffers = 3;
}  // namespace

std::vector<Window> ReserveDeviceWindows() {
  std::vector<Window> offers;
  for (const Window& window : kCandidates) {
    void* want = reinterpret_cast<void*>(window.base);
    // The kernel itself is asked: a program under ThreadSanitizer has an mmap() that takes an
    // address it does not like to mean "anywhere", and for root address 0 is somewhere.
    long mapped = syscall(SYS_mmap, want, window.bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == -1) continue;
    void* got = reinterpret_cast<void*>(mapped);
    if (got != want) {  // a kernel before 4.17 takes the address as a hint
      munmap(got, window.bytes);
      continue;
    }
    madvise(got, window.bytes, MADV_DONTDUMP);
    offers.push_back(window);
    if (offers.size() == kMaxOffers) break;
  }
  return offers;
}

void ReleaseWindow(const Window& window) {
  munmap(reinterpret_cast<void*>(window.base), window.bytes);
}

}  // namespace farcall::client
