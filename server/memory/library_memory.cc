// SPDX-License-Identifier: Apache-2.0
#include "server/memory/library_memory.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "server/device/driver_output.h"

namespace farcall::server {

namespace {
std::atomic<LibraryMemory*> watching{nullptr};
thread_local bool on_helper = false;
}  // namespace

void LibraryMemory::Watch() {
  watching.store(this, std::memory_order_release);
}

LibraryMemory* LibraryMemory::Watching() {
  return watching.load(std::memory_order_acquire);
}

// By a message of the session's and records of the client's; the issue thread takes the credit
// back, so that it cannot ask.
bool LibraryMemory::Recall(int device) {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kPause{5};
  const uint64_t before = on_helper ? memory_.granted_bytes(device) : 0;
  if (before == 0) return false;
  recall_(device);
  for (int i = 0; i < kTries && memory_.granted_bytes(device) >= before; ++i)
    std::this_thread::sleep_for(kPause);
  return memory_.granted_bytes(device) < before;
}

CUresult LibraryMemory::Charge(int device, uint64_t bytes) {
  Status charged = broker_.Charge(device, bytes);
  if (!charged.ok() && memory_.AwaitLeaving()) charged = broker_.Charge(device, bytes);
  if (!charged.ok() && Recall(device)) charged = broker_.Charge(device, bytes);
  // Once for a session: a tenant at its quota may try as often as it likes.
  if (!charged.ok() && !said_.exchange(true))
    std::fprintf(OwnLog(), "a library's own memory: %s\n", charged.message().c_str());
  return charged.ok() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

std::shared_ptr<void> LibraryMemory::Submitted() {
  LibraryMemory* watching = Watching();
  if (watching == nullptr) return nullptr;
  {
    std::lock_guard lock(watching->mutex_);
    ++watching->submitted_;
  }
  return {watching, [](void* of) {
            auto* memory = static_cast<LibraryMemory*>(of);
            std::lock_guard lock(memory->mutex_);
            ++memory->finished_;
            memory->changed_.notify_all();
          }};
}

void LibraryMemory::OnHelper() {
  on_helper = true;
}

bool LibraryMemory::AwaitHelper() {
  constexpr std::chrono::seconds kPatience{5};
  LibraryMemory* memory = Watching();
  if (memory == nullptr || on_helper) return false;
  std::unique_lock lock(memory->mutex_);
  const uint64_t before = memory->finished_, all = memory->submitted_;
  memory->changed_.wait_for(lock, kPatience, [&] { return memory->finished_ >= all; });
  return memory->finished_ != before;
}

CUresult LibraryMemory::Take(int device, uint64_t bytes, bool context_owns,
                             const std::function<CUresult(uint64_t* address)>& make) {
  uint64_t address = 0;
  if (stopped_.load()) return make(&address);
  CUresult result = Charge(device, bytes);
  if (result != CUDA_SUCCESS) return result;
  Taken taken{device, bytes, nullptr, context_owns};
  if (context_owns) api_.cuCtxGetCurrent(&taken.context);
  result = make(&address);
  if (result != CUDA_SUCCESS) {
    broker_.Refund(device, bytes);
    return result;
  }
  std::lock_guard lock(mutex_);
  taken_[address] = taken;
  return CUDA_SUCCESS;
}

CUresult LibraryMemory::TakeHere(uint64_t bytes,
                                 const std::function<CUresult(uint64_t* address)>& make) {
  CUdevice device = 0;
  CUresult result = api_.cuCtxGetDevice(&device);
  return result == CUDA_SUCCESS ? Take(device, bytes, true, make) : result;
}

// Out of the map first: once it is free, another thread may be given the address.
CUresult LibraryMemory::Give(uint64_t address, const std::function<CUresult()>& free) {
  std::unique_lock lock(mutex_);
  auto node = taken_.extract(address);
  lock.unlock();
  const CUresult result = free();
  if (node.empty()) return result;
  if (result != CUDA_SUCCESS) {
    lock.lock();
    taken_.insert(std::move(node));
  } else if (!stopped_.load()) {
    broker_.Refund(node.mapped().device, node.mapped().bytes);
  }
  return result;
}

CUresult LibraryMemory::Info(size_t* free_bytes, size_t* total_bytes) {
  if (stopped_.load()) return api_.cuMemGetInfo_v2(free_bytes, total_bytes);
  CUdevice device = 0;
  CUresult result = api_.cuCtxGetDevice(&device);
  if (result != CUDA_SUCCESS || free_bytes == nullptr || total_bytes == nullptr)
    return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
  const quota::Usage usage = memory_.Query(device);
  *free_bytes = memory_.AvailableBytes(device, usage);
  *total_bytes = usage.quota_bytes;
  return CUDA_SUCCESS;
}

bool LibraryMemory::Holds(uint64_t address, uint64_t bytes) {
  LibraryMemory* memory = Watching();
  if (memory == nullptr) return false;
  std::lock_guard lock(memory->mutex_);
  // Handles are numbers among the addresses: the nearest key below may be one.
  for (auto at = memory->taken_.upper_bound(address); at != memory->taken_.begin();) {
    --at;
    if (at->second.has_address) {
      const uint64_t offset = address - at->first;
      return offset < at->second.bytes && bytes <= at->second.bytes - offset;
    }
  }
  return false;
}

std::vector<LibraryMemory::Taken> LibraryMemory::Leave(CUcontext context) {
  std::vector<Taken> left;
  std::lock_guard lock(mutex_);
  for (auto at = taken_.begin(); context != nullptr && at != taken_.end();) {
    if (at->second.context == context) {
      left.push_back(at->second);
      at = taken_.erase(at);
    } else {
      ++at;
    }
  }
  return left;
}

void LibraryMemory::Refund(const std::vector<Taken>& taken) {
  for (const Taken& one : taken) broker_.Refund(one.device, one.bytes);
}

}  // namespace farcall::server
