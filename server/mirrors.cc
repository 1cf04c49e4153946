// SPDX-License-Identifier: Apache-2.0
#include "server/mirrors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "proto/host_window.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace farcall::server {

namespace {

constexpr uint64_t kMaxUnchargedBytes = uint64_t{4} << 30;  // of a session, agreed copies beside
constexpr uint64_t kMaxInlineAnswerBytes = 256u << 10;
constexpr uint64_t kMaxAnswerBytes = 768u << 10;

std::byte* At(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

bool InWindow(uint64_t address, uint64_t bytes) {
  return address % kHostPageBytes == 0 && bytes % kHostPageBytes == 0 && bytes != 0 &&
         std::any_of(std::begin(kHostWindows), std::end(kHostWindows),
                     [&](const Window& window) { return window.Contains(address, bytes); });
}

}  // namespace

Mirrors::~Mirrors() {
  for (const auto& [base, mirror] : mirrors_) {
    munmap(At(base), mirror.bytes);
    munmap(mirror.agreed, mirror.bytes);
  }
}

CUresult Mirrors::Create(uint64_t address, uint64_t bytes, int device, std::string* detail) {
  if (!InWindow(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(mutex_);
  if (device < 0) {
    if (bytes > kMaxUnchargedBytes - uncharged_bytes_) {
      *detail = "mapped host memory: asked " + std::to_string(bytes) + " bytes, " +
                std::to_string(kMaxUnchargedBytes - uncharged_bytes_) + " free of " +
                std::to_string(kMaxUnchargedBytes);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uncharged_bytes_ += bytes;
  } else if (Status charged = broker_.Charge(device, bytes); !charged.ok()) {
    *detail = charged.message();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Mirror mirror{bytes, device, nullptr};
  constexpr int kAccess = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(At(address), bytes, kAccess, kKind | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != MAP_FAILED && memory != At(address)) {  // a kernel before 4.17
    munmap(memory, bytes);
    memory = MAP_FAILED;
  }
  CUresult result = memory == MAP_FAILED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
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
  if (result == CUDA_SUCCESS) {
    mirrors_[address] = mirror;
    return result;
  }
  if (memory != MAP_FAILED) {
    munmap(memory, bytes);
  }
  if (mirror.agreed != nullptr) {
    munmap(mirror.agreed, bytes);
  }
  if (device < 0) {
    uncharged_bytes_ -= bytes;
  } else {
    broker_.Refund(device, bytes);
  }
  *detail = "host memory cannot be mapped for the device at its address here";
  return result;
}

void Mirrors::Drop(uint64_t base, const Mirror& mirror) {
  api_.cuMemHostUnregister(At(base));
  munmap(At(base), mirror.bytes);
  munmap(mirror.agreed, mirror.bytes);
  if (mirror.device < 0) {
    uncharged_bytes_ -= mirror.bytes;
  } else {
    broker_.Refund(mirror.device, mirror.bytes);
  }
}

bool Mirrors::Remove(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = mirrors_.find(address);
  if (found == mirrors_.end()) {
    return false;
  }
  Drop(address, found->second);
  mirrors_.erase(found);
  return true;
}

const Mirrors::Mirror* Mirrors::FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) const {
  auto after = mirrors_.upper_bound(address);
  if (after == mirrors_.begin()) {
    return nullptr;
  }
  const auto& [start, mirror] = *std::prev(after);
  if (!Window{start, mirror.bytes}.Contains(address, bytes)) {
    return nullptr;
  }
  *base = start;
  return &mirror;
}

bool Mirrors::Contains(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  return FindLocked(address, bytes, &base) != nullptr;
}

// A byte the client has not changed may have been changed by the device: it stays.
void Mirrors::ApplyLocked(uint64_t base, const Mirror& mirror, uint64_t address,
                          std::span<const std::byte> bytes) {
  std::byte* agreed = mirror.agreed + (address - base);
  volatile std::byte* memory = At(address);
  if (std::memcmp(agreed, At(address), bytes.size()) == 0) {
    std::memcpy(At(address), bytes.data(), bytes.size());
    std::memcpy(agreed, bytes.data(), bytes.size());
    return;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != agreed[i]) {
      memory[i] = bytes[i];
      agreed[i] = bytes[i];
    }
  }
}

bool Mirrors::Apply(uint64_t address, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  uint64_t base = 0;
  const Mirror* mirror = FindLocked(address, bytes.size(), &base);
  if (mirror == nullptr) {
    return false;
  }
  ApplyLocked(base, *mirror, address, bytes);
  return true;
}

bool Mirrors::ApplyRuns(std::span<const std::byte> runs) {
  std::lock_guard lock(mutex_);
  Reader in(runs);
  while (in.ok() && in.remaining_bytes() >= 8) {
    auto address = in.Get<uint64_t>();
    std::span<const std::byte> bytes = in.GetBytes();
    uint64_t base = 0;
    const Mirror* mirror = in.ok() ? FindLocked(address, bytes.size(), &base) : nullptr;
    if (mirror == nullptr) {
      return false;
    }
    ApplyLocked(base, *mirror, address, bytes);
  }
  return in.Done();
}

struct Mirrors::Answer {
  Builder* out = nullptr;
  uint64_t inline_bytes = 0;
  bool full = false;

  void Add(uint64_t address, uint64_t bytes, std::span<const std::byte> content) {
    out->Put<uint64_t>(address);
    out->Put<uint64_t>(bytes);
    out->PutBytes(content.data(), content.size());
    inline_bytes += content.size();
    full = out->bytes().size() > kMaxAnswerBytes;
  }
};

void Mirrors::CollectFrom(uint64_t base, const Mirror& mirror, Answer* answer) {
  uint64_t large_from = 0, large_bytes = 0;  // a run of pages the client will copy
  auto end_large = [&] {
    if (large_bytes != 0) {
      answer->Add(base + large_from, large_bytes, {});
    }
    large_bytes = 0;
  };
  for (uint64_t page = 0; page < mirror.bytes && !answer->full; page += kHostPageBytes) {
    const std::byte* now = At(base + page);
    std::byte* agreed = mirror.agreed + page;
    if (std::memcmp(now, agreed, kHostPageBytes) == 0) {
      end_large();
      continue;
    }
    std::vector<std::byte> snapshot(now, now + kHostPageBytes);
    if (answer->inline_bytes >= kMaxInlineAnswerBytes) {
      large_from = large_bytes == 0 ? page : large_from;
      large_bytes += kHostPageBytes;
    } else {
      for (uint64_t from = 0; from < kHostPageBytes;) {
        if (std::memcmp(&snapshot[from], agreed + from, 8) == 0) {
          from += 8;
          continue;
        }
        uint64_t to = from + 8;
        while (to < kHostPageBytes && std::memcmp(&snapshot[to], agreed + to, 8) != 0) {
          to += 8;
        }
        answer->Add(base + page + from, to - from, std::span(snapshot).subspan(from, to - from));
        from = to;
      }
    }
    std::memcpy(agreed, snapshot.data(), kHostPageBytes);
  }
  end_large();
}

void Mirrors::Collect(Builder* out) {
  std::lock_guard lock(mutex_);
  out->Put<uint64_t>(0);
  Answer answer;
  answer.out = out;
  for (const auto& [base, mirror] : mirrors_) {
    if (!answer.full) {
      CollectFrom(base, mirror, &answer);
    }
  }
  uint64_t more = answer.full ? 1 : 0;
  std::memcpy(out->mutable_bytes().data(), &more, sizeof(more));
}

}  // namespace farcall::server
