// SPDX-License-Identifier: Apache-2.0
#include "server/memory/mirrors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/changed_bytes.h"
#include "proto/cuda/host_window.h"
#include "proto/shared_bytes.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace farcall::server {

namespace {

std::byte* At(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

std::byte* MapAnywhere(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// At the very address: a file's memory, or (-1) nobody else's.
std::byte* MapAt(uint64_t address, uint64_t bytes, int file) {
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory =
      mmap(At(address), bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED_NOREPLACE, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (memory != At(address)) {  // a kernel before 4.17
    munmap(memory, bytes);
    return nullptr;
  }
  return static_cast<std::byte*>(memory);
}

// Memory that whoever maps it can rely on: all of it is there, and nobody takes any of it away.
int MakeSharedFile(uint64_t bytes) {
  const int file = memfd_create("farcall-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(file, size) != 0 || fallocate(file, 0, 0, size) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    close(file);
    return -1;
  }
  return file;
}

bool InWindow(uint64_t address, uint64_t bytes) {
  return address % kHostPageBytes == 0 && bytes % kHostPageBytes == 0 && bytes != 0 &&
         InHostWindows(address, bytes);
}

}  // namespace

void Mirrors::Unmap(const Mirror& mirror) {
  if (mirror.owner == 0 && mirror.memory != nullptr) munmap(mirror.memory, mirror.bytes);
  if (mirror.agreed != nullptr) munmap(mirror.agreed, mirror.bytes);
}

Mirrors::~Mirrors() {
  for (const auto& [base, mirror] : mirrors_) Unmap(mirror);
}

CUresult Mirrors::Charge(uint64_t bytes, int device, std::string* detail) {
  Status charged = broker_.Charge(device >= 0 ? device : quota::kHostMemory, bytes);
  *detail = charged.message();
  return charged.ok() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Mirrors::Refund(uint64_t bytes, int device) {
  broker_.Refund(device >= 0 ? device : quota::kHostMemory, bytes);
}

CUresult Mirrors::Create(uint64_t address, uint64_t bytes, int device, std::string* detail) {
  return Make(address, bytes, device, nullptr, detail);
}

CUresult Mirrors::Share(uint64_t address, uint64_t bytes, int device, int* descriptor,
                        std::string* detail) {
  return Make(address, bytes, device, descriptor, detail);
}

// Without the lock: ledger and driver may take their time. Who has the address has it alone.
CUresult Mirrors::Make(uint64_t address, uint64_t bytes, int device, int* descriptor,
                       std::string* detail) {
  if (!InWindow(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = Charge(bytes, device, detail);
  if (result != CUDA_SUCCESS) return result;
  Mirror mirror{bytes, device, nullptr, nullptr, bytes, 0};
  if (descriptor != nullptr) {
    *descriptor = MakeSharedFile(bytes);
    result = *descriptor < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) {
    mirror.memory = MapAt(address, bytes, descriptor == nullptr ? -1 : *descriptor);
    result = mirror.memory == nullptr ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS && descriptor == nullptr) {
    mirror.agreed = MapAnywhere(bytes);
    result = mirror.agreed == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) result = Register(mirror);
  if (result == CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    KeepLocked(address, mirror);
    return result;
  }
  Unmap(mirror);
  if (descriptor != nullptr && *descriptor >= 0) close(std::exchange(*descriptor, -1));
  Refund(bytes, device);
  *detail = mirror.memory == nullptr ? "host memory cannot be mapped here: its address is taken"
                                     : "host memory cannot be mapped for the device here: code " +
                                           std::to_string(static_cast<int>(result));
  return result;
}

CUresult Mirrors::Register(const Mirror& mirror) {
  const CUresult locked = api_.cuMemHostRegister_v2(
      mirror.memory, mirror.bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (locked != CUDA_SUCCESS) return locked;
  CUdeviceptr seen = 0;
  if (api_.cuMemHostGetDevicePointer_v2(&seen, mirror.memory, 0) == CUDA_SUCCESS &&
      At(seen) == mirror.memory)
    return CUDA_SUCCESS;
  api_.cuMemHostUnregister(mirror.memory);
  return CUDA_ERROR_NOT_SUPPORTED;
}
void Mirrors::KeepLocked(uint64_t address, const Mirror& mirror) {
  mirrors_[address] = mirror;
  bytes_ += CrossingBytes(mirror);
}

CUresult Mirrors::Adopt(uint64_t address, uint64_t bytes, CUdeviceptr memory, uint64_t valid_bytes,
                        uint64_t owner) {
  std::string detail;
  if (!InWindow(address, bytes) || valid_bytes == 0 || valid_bytes > bytes)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = Charge(bytes, -1, &detail);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(mutex_);
  auto after = mirrors_.lower_bound(address);
  bool taken = (after != mirrors_.end() && after->first - address < bytes) ||
               (after != mirrors_.begin() &&
                address - std::prev(after)->first < std::prev(after)->second.bytes);
  std::byte* agreed = taken ? nullptr : MapAnywhere(bytes);
  if (agreed == nullptr) {
    Refund(bytes, -1);
    return taken ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  KeepLocked(address, {bytes, -1, agreed, At(memory), valid_bytes, owner});
  return CUDA_SUCCESS;
}

void Mirrors::Abandon(uint64_t owner) {
  std::lock_guard lock(mutex_);
  for (auto& [base, mirror] : mirrors_)
    if (mirror.owner != 0 && (owner == 0 || mirror.owner == owner)) mirror.memory = nullptr;
}

void Mirrors::Drop(const Mirror& mirror) {
  if (mirror.owner == 0) api_.cuMemHostUnregister(mirror.memory);
  Unmap(mirror);
  bytes_ -= CrossingBytes(mirror);
  Refund(mirror.bytes, mirror.device);
}

bool Mirrors::Remove(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = mirrors_.find(address);
  if (found == mirrors_.end()) return false;
  Drop(found->second);
  mirrors_.erase(found);
  return true;
}

const Mirrors::Mirror* Mirrors::FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) const {
  auto after = mirrors_.upper_bound(address);
  if (after == mirrors_.begin()) return nullptr;
  const auto& [start, mirror] = *std::prev(after);
  if (!Window{start, mirror.valid_bytes}.Contains(address, bytes)) return nullptr;
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
  const Mirror* mirror = FindLocked(address, bytes, &base);
  return mirror != nullptr && mirror->agreed != nullptr;
}

bool Mirrors::Apply(uint64_t address, std::span<const std::byte> bytes,
                    std::span<const std::byte> mask) {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  const Mirror* mirror = FindLocked(address, bytes.size(), &base);
  if (mirror == nullptr || mirror->agreed == nullptr || !MaskFits(mask.size(), bytes.size()))
    return false;
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
    if (!in.ok() || !Apply(address, bytes, mask)) return false;
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
  if (!MaskChanged(now, agreed, mask.data())) return;
  size_t first = 0, last = MaskBytes(bytes);
  while (mask[first] == std::byte{0}) ++first;
  while (mask[last - 1] == std::byte{0}) --last;
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
    if (mirror.memory == nullptr || mirror.agreed == nullptr) continue;
    uint64_t end = base + mirror.valid_bytes;
    uint64_t page = std::max(base, from / kHostPageBytes * kHostPageBytes);
    for (; page < end; page += kHostPageBytes) {
      if (out->bytes().size() - start >= most_bytes || looked_bytes == kMaxLookedBytes) return page;
      looked_bytes += kHostPageBytes;
      std::byte* agreed = mirror.agreed + (page - base);
      const std::byte* memory = mirror.memory + (page - base);
      size_t bytes = std::min(kHostPageBytes, end - page);
      if (SharedBytesDiffer(memory, agreed, bytes)) CollectPage(page, memory, agreed, bytes, out);
    }
  }
  return 0;
}

}  // namespace farcall::server
