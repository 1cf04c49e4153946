// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/memory/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/base/memfd.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kPage = Arena::kPage;
constexpr uint64_t kUnit = 512;
constexpr const char* kFileName = "farcall-arena";

uint64_t RoundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

void* At(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

Arena::Arena(uint64_t bytes) {
  for (uint64_t size = RoundUp(bytes, kPage); size >= kPage; size = RoundUp(size / 2, kPage)) {
    void* raw =
        mmap(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw != MAP_FAILED) {
      base_ = RoundUp(reinterpret_cast<uint64_t>(raw), kPage);
      size_ = size;
      break;
    }
    if (size == kPage) break;
  }
  if (size_ == 0) {
    Log(LogLevel::kError, "device memory: no address space for %llu bytes (ulimit -v?)",
        static_cast<unsigned long long>(bytes));
    return;
  }
  free_[base_] = size_;
  users_ = std::make_unique<uint32_t[]>(size_ / kPage);
}

uint64_t Arena::Allocate(uint64_t bytes, uint64_t align) {
  if (bytes == 0 || bytes > size_) return 0;
  bytes = RoundUp(bytes, kUnit);
  // Large blocks start on a page of their own, so that their last page holds nobody else's small
  // ones by accident of order.
  align = bytes >= kPage ? kPage : std::max(align, kUnit);
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = RoundUp(it->first, align);
    const uint64_t end = it->first + it->second;
    if (start >= end || end - start < bytes) continue;
    if (!Retain(start, bytes)) return 0;
    const uint64_t head = start - it->first;
    const uint64_t tail = end - (start + bytes);
    if (head != 0)
      it->second = head;
    else
      free_.erase(it);
    if (tail != 0) free_[start + bytes] = tail;
    return start;
  }
  return 0;
}

void Arena::Free(uint64_t address, uint64_t bytes) {
  bytes = RoundUp(bytes, kUnit);
  std::lock_guard lock(mutex_);
  Drop(address, bytes);
  auto [it, inserted] = free_.emplace(address, bytes);
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    const auto previous = std::prev(it);
    if (previous->first + previous->second == it->first) {
      previous->second += it->second;
      free_.erase(it);
    }
  }
}

bool Arena::Retain(uint64_t address, uint64_t bytes) {
  const uint64_t first = (address - base_) / kPage, last = (address + bytes - 1 - base_) / kPage;
  for (uint64_t page = first; page <= last;) {
    if (users_[page] != 0) {
      ++page;
      continue;
    }
    uint64_t end = page;
    while (end <= last && users_[end] == 0) ++end;
    if (mprotect(At(base_ + page * kPage), (end - page) * kPage, PROT_READ | PROT_WRITE) != 0)
      return false;
    page = end;
  }
  for (uint64_t page = first; page <= last; ++page) ++users_[page];
  return true;
}

bool Arena::Share(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (file() < 0 && !MakeFile()) return false;
  const uint64_t last = (address + bytes - 1 - base_) / kSharedPage;
  for (uint64_t page = (address - base_) / kSharedPage; page <= last; ++page) {
    if (shared_[page]) continue;
    uint64_t end = page;
    while (end <= last && !shared_[end]) ++end;
    if (!MoveToFile(page, end)) return false;
    page = end - 1;
  }
  return true;
}

bool Arena::IsShared(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (shared_.empty() || !Contains(address)) return false;
  const auto first = shared_.begin() + static_cast<ptrdiff_t>((address - base_) / kSharedPage);
  const auto last =
      shared_.begin() + static_cast<ptrdiff_t>((address + bytes - 1 - base_) / kSharedPage);
  return std::find(first, last + 1, true) != last + 1;
}

bool Arena::MakeFile() {
  const int fd = NewMemfd(kFileName, size_);
  if (fd < 0) return false;
  shared_.resize(size_ / kSharedPage);
  file_.store(fd, std::memory_order_release);
  return true;
}

int Arena::DuplicateFile() {
  std::lock_guard lock(mutex_);
  if (file() < 0 && !MakeFile()) return -1;
  return fcntl(file(), F_DUPFD_CLOEXEC, 0);
}

bool Arena::IsFile(int descriptor) {
  return MemfdName(descriptor) == kFileName;
}

bool Arena::MoveToFile(uint64_t first, uint64_t end) {
  static const char zeros[kSharedPage] = {};
  for (uint64_t page = first; page < end; ++page) {
    // A page nobody wrote stays a hole.
    const void* from = At(base_ + page * kSharedPage);
    if (memcmp(from, zeros, kSharedPage) == 0) continue;
    if (pwrite(file(), from, kSharedPage, static_cast<off_t>(page * kSharedPage)) != kSharedPage) {
      Log(LogLevel::kError, "device memory for other processes: %s", strerror(errno));
      return false;
    }
  }
  if (mmap(At(base_ + first * kSharedPage), (end - first) * kSharedPage, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file(), static_cast<off_t>(first * kSharedPage)) == MAP_FAILED)
    return false;
  std::fill(shared_.begin() + static_cast<ptrdiff_t>(first),
            shared_.begin() + static_cast<ptrdiff_t>(end), true);
  return true;
}

void Arena::LeaveFile(uint64_t address, uint64_t bytes) {
  if (shared_.empty()) return;
  const auto first = shared_.begin() + static_cast<ptrdiff_t>((address - base_) / kSharedPage);
  const auto end = first + static_cast<ptrdiff_t>(bytes / kSharedPage);
  if (std::find(first, end, true) == end) return;
  std::fill(first, end, false);
  fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address - base_),
            static_cast<off_t>(bytes));
}

void Arena::Drop(uint64_t address, uint64_t bytes) {
  const uint64_t first = (address - base_) / kPage, last = (address + bytes - 1 - base_) / kPage;
  for (uint64_t page = first; page <= last; ++page) --users_[page];
  for (uint64_t page = first; page <= last;) {
    if (users_[page] != 0) {
      ++page;
      continue;
    }
    uint64_t end = page;
    while (end <= last && users_[end] == 0) ++end;
    LeaveFile(base_ + page * kPage, (end - page) * kPage);
    // A fresh mapping gives the memory back and takes the rights away in one step.
    (void)mmap(At(base_ + page * kPage), (end - page) * kPage, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    page = end;
  }
}

}  // namespace farcall::cpu_device
