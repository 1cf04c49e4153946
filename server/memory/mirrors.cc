// SPDX-License-Identifier: Apache-2.0
#include "server/memory/mirrors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/changed_bytes.h"
#include "proto/host_window.h"
#include "proto/shared_bytes.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace farcall::server {

namespace {

std::byte* At(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

bool InWindow(uint64_t address, uint64_t bytes) {
  return address % kHostPageBytes == 0 && bytes % kHostPageBytes == 0 && bytes != 0 &&
         InHostWindows(address, bytes);
}

}  // namespace

Mirrors::~Mirrors() {
  for (const auto& [base, mirror] : mirrors_) {
    if (mirror.owner == 0) {
      munmap(mirror.memory, mirror.bytes);
    }
    munmap(mirror.agreed, mirror.bytes);
  }
}

CUresult Mirrors::Charge(uint64_t bytes, int device, std::string* detail) {
  Status charged = broker_.Charge(device >= 0 ? device : quota::kHostMemory, bytes);
  *detail = charged.message();
  return charged.ok() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Mirrors::Refund(uint64_t bytes, int device) {
  broker_.Refund(device >= 0 ? device : quota::kHostMemory, bytes);
}

// Without the lock: ledger and driver may take their time. Who has the address has it alone.
CUresult Mirrors::Create(uint64_t address, uint64_t bytes, int device, std::string* detail) {
  if (!InWindow(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = Charge(bytes, device, detail);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  Mirror mirror{bytes, device, nullptr, At(address), bytes, 0};
  constexpr int kAccess = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(At(address), bytes, kAccess, kKind | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != MAP_FAILED && memory != At(address)) {  // a kernel before 4.17
    munmap(memory, bytes);
    memory = MAP_FAILED;
  }
  result = memory == MAP_FAILED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) {
    void* agreed = mmap(nullptr, bytes, kAccess, kKind | MAP_NORESERVE, -1, 0);
    mirror.agreed = agreed == MAP_FAILED ? nullptr : static_cast<std::byte*>(agreed);
    result = mirror.agreed == nullptr
                 ? CUDA_ERROR_OUT_OF_MEMORY
                 : api_.cuMemHostRegister_v2(
                       memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  }
  if (result == CUDA_SUCCESS) {
    CUdeviceptr seen = 0;
    result = api_.cuMemHostGetDevicePointer_v2(&seen, memory, 0);
    if (result != CUDA_SUCCESS || seen != address) {
      api_.cuMemHostUnregister(memory);
      result = CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  std::lock_guard lock(mutex_);
  if (result == CUDA_SUCCESS) {
    KeepLocked(address, mirror);
    return result;
  }
  if (memory != MAP_FAILED) {
    munmap(memory, bytes);
  }
  if (mirror.agreed != nullptr) {
    munmap(mirror.agreed, bytes);
  }
  Refund(bytes, device);
  *detail = "host memory cannot be mapped for the device at its address here";
  return result;
}

void Mirrors::KeepLocked(uint64_t address, const Mirror& mirror) {
  mirrors_[address] = mirror;
  bytes_ += mirror.bytes;
}

CUresult Mirrors::Adopt(uint64_t address, uint64_t bytes, CUdeviceptr memory, uint64_t valid_bytes,
                        uint64_t owner) {
  std::string detail;
  if (!InWindow(address, bytes) || valid_bytes == 0 || valid_bytes > bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = Charge(bytes, -1, &detail);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  std::lock_guard lock(mutex_);
  auto after = mirrors_.lower_bound(address);
  bool taken = (after != mirrors_.end() && after->first - address < bytes) ||
               (after != mirrors_.begin() &&
                address - std::prev(after)->first < std::prev(after)->second.bytes);
  void* agreed = taken ? MAP_FAILED
                       : mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (agreed == MAP_FAILED) {
    Refund(bytes, -1);
    return taken ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  KeepLocked(address, {bytes, -1, static_cast<std::byte*>(agreed), At(memory), valid_bytes, owner});
  return CUDA_SUCCESS;
}

void Mirrors::Abandon(uint64_t owner) {
  std::lock_guard lock(mutex_);
  for (auto& [base, mirror] : mirrors_) {
    if (mirror.owner != 0 && (owner == 0 || mirror.owner == owner)) {
      mirror.memory = nullptr;
    }
  }
}

void Mirrors::Drop(const Mirror& mirror) {
  if (mirror.owner == 0) {
    api_.cuMemHostUnregister(mirror.memory);
    munmap(mirror.memory, mirror.bytes);
  }
  munmap(mirror.agreed, mirror.bytes);
  bytes_ -= mirror.bytes;
  Refund(mirror.bytes, mirror.device);
}

bool Mirrors::Remove(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = mirrors_.find(address);
  if (found == mirrors_.end()) {
    return false;
  }
  Drop(found->second);
  mirrors_.erase(found);
  return true;
}

const Mirrors::Mirror* Mirrors::FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) const {
  auto after = mirrors_.upper_bound(address);
  if (after == mirrors_.begin()) {
    return nullptr;
  }
  const auto& [start, mirror] = *std::prev(after);
  if (!Window{start, mirror.valid_bytes}.Contains(address, bytes)) {
    return nullptr;
  }
  *base = start;
  return &mirror;
}

bool Mirrors::Contains(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  const Mirror* mirror = FindLocked(address, bytes, &base);
  return mirror != nullptr && mirror->owner == 0;
}

bool Mirrors::MayApply(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  return FindLocked(address, bytes, &base) != nullptr;
}

bool Mirrors::Apply(uint64_t address, std::span<const std::byte> bytes,
                    std::span<const std::byte> mask) {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  const Mirror* mirror = FindLocked(address, bytes.size(), &base);
  if (mirror == nullptr || !MaskFits(mask.size(), bytes.size())) {
    return false;
  }
  if (mirror->memory != nullptr) {
    uint64_t offset = address - base;
    TakeChanged(bytes, mask, mirror->memory + offset, mirror->agreed + offset);
  }
  return true;
}

bool Mirrors::ApplyRuns(std::span<const std::byte> runs) {
  Reader in(runs);
  while (in.ok() && in.remaining_bytes() >= 8) {
    auto address = in.Get<uint64_t>();
    std::span<const std::byte> bytes = in.GetBytes();
    std::span<const std::byte> mask = in.GetBytes();
    if (!in.ok() || !Apply(address, bytes, mask)) {
      return false;
    }
  }
  return in.Done();
}

// One run from the page's first changed word to its last.
void Mirrors::CollectPage(uint64_t address, const std::byte* memory, std::byte* agreed,
                          size_t bytes, Builder* out) {
  std::array<std::byte, kHostPageBytes> copy;  // the device may go on writing
  std::span<std::byte> now(copy.data(), bytes);
  CopySharedBytes(now.data(), memory, bytes);
  std::array<std::byte, MaskBytes(kHostPageBytes)> mask;
  if (!MaskChanged(now, agreed, mask.data())) {
    return;
  }
  size_t first = 0, last = MaskBytes(bytes);
  while (mask[first] == std::byte{0}) {
    ++first;
  }
  while (mask[last - 1] == std::byte{0}) {
    --last;
  }
  out->Put<uint64_t>(address + first * 8);
  out->PutBytes(&now[first * 8], std::min(last * 8, bytes) - first * 8);
  bool whole = std::all_of(&mask[first], &mask[first] + (last - first),
                           [](std::byte word) { return word == std::byte{0xFF}; });
  out->PutBytes(&mask[first], whole ? 0 : last - first);
  std::memcpy(agreed, now.data(), now.size());
}

uint64_t Mirrors::Collect(uint64_t from, size_t most_bytes, Builder* out) {
  std::lock_guard lock(mutex_);
  size_t start = out->bytes().size();
  uint64_t looked_bytes = 0;
  for (const auto& [base, mirror] : mirrors_) {
    if (mirror.memory == nullptr) {
      continue;
    }
    uint64_t end = base + mirror.valid_bytes;
    uint64_t page = std::max(base, from / kHostPageBytes * kHostPageBytes);
    for (; page < end; page += kHostPageBytes) {
      if (out->bytes().size() - start >= most_bytes || looked_bytes == kMaxLookedBytes) {
        return page;
      }
      looked_bytes += kHostPageBytes;
      std::byte* agreed = mirror.agreed + (page - base);
      const std::byte* memory = mirror.memory + (page - base);
      size_t bytes = std::min(kHostPageBytes, end - page);
      if (SharedBytesDiffer(memory, agreed, bytes)) {
        CollectPage(page, memory, agreed, bytes, out);
      }
    }
  }
  return 0;
}

}  // namespace farcall::server
