// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/host_window.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

#include "proto/codec.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace farcall::client {

namespace {

constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// By number: under ThreadSanitizer mmap() takes an address it does not like to mean "anywhere".
bool Map(uint64_t address, uint64_t bytes, int access, int flags) {
  void* want = reinterpret_cast<void*>(address);
  long mapped = syscall(SYS_mmap, want, bytes, access, flags, -1, 0);
  if (mapped == -1) return false;
  if (reinterpret_cast<void*>(mapped) == want) return true;
  munmap(reinterpret_cast<void*>(mapped), bytes);  // a kernel before 4.17
  return false;
}

}  // namespace

HostWindow& HostAddresses() {
  static HostWindow* window = new HostWindow;
  return *window;
}

bool HostWindow::ReserveLocked() {
  if (tried_) return bytes_ != 0;
  tried_ = true;
  for (const Window& window : kHostWindows) {
    if (!Map(window.base, window.bytes, PROT_NONE, kReserve | MAP_FIXED_NOREPLACE)) continue;
    madvise(reinterpret_cast<void*>(window.base), window.bytes, MADV_DONTDUMP);
    free_[window.base] = window.bytes;
    base_ = window.base;
    bytes_ = window.bytes;
    return true;
  }
  return false;
}

bool HostWindow::available() {
  std::lock_guard lock(mutex_);
  return ReserveLocked();
}

uint64_t HostWindow::Take(uint64_t bytes) {
  bytes = AlignUp(bytes, kHostPageBytes);
  std::lock_guard lock(mutex_);
  if (!ReserveLocked()) return 0;
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < bytes) continue;
    auto [base, length] = *at;
    free_.erase(at);
    if (length > bytes) free_[base + bytes] = length - bytes;
    return base;
  }
  return 0;
}

bool HostWindow::Back(uint64_t address, uint64_t bytes) {
  return Map(address, AlignUp(bytes, kHostPageBytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
}

void HostWindow::Hold(uint64_t address, uint64_t bytes) {
  Map(address, bytes, PROT_NONE, kReserve | MAP_FIXED);
}

void HostWindow::Give(uint64_t address, uint64_t bytes) {
  bytes = AlignUp(bytes, kHostPageBytes);
  Hold(address, bytes);
  std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_[address] = bytes;
}

}  // namespace farcall::client
