// SPDX-License-Identifier: Apache-2.0
#include "server/memory/host_slabs.h"

#include <sys/mman.h>

#include <iterator>

#include "server/device/current_context.h"

namespace farcall::server {

HostSlabs::~HostSlabs() {
  for (const auto& [base, slab] : slabs_)
    munmap(base, slab.bytes);  // the session is over: its contexts go with the process
}

void HostSlabs::Pin(std::byte* base, Slab* slab, CUcontext context) {
  if (slab->pinned_in == nullptr && api_.cuMemHostRegister_v2 != nullptr &&
      api_.cuMemHostRegister_v2(base, slab->bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
    slab->pinned_in = context;
}

std::byte* HostSlabs::Take(uint64_t bytes, CUcontext context) {
  std::lock_guard lock(mutex_);
  for (auto& [base, slab] : slabs_) {
    if (!slab.taken && slab.bytes == bytes) {
      slab.taken = true;
      Pin(base, &slab, context);
      return base;
    }
  }
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(made);
  Slab& slab = slabs_[base];
  slab = {bytes, nullptr, true};
  Pin(base, &slab, context);
  return base;
}

void HostSlabs::Put(std::byte* slab) {
  std::lock_guard lock(mutex_);
  slabs_[slab].taken = false;
}

void HostSlabs::Trim() {
  std::lock_guard lock(mutex_);
  for (auto at = slabs_.begin(); at != slabs_.end();) {
    auto& [base, slab] = *at;
    if (slab.taken) {
      ++at;
      continue;
    }
    if (slab.pinned_in != nullptr) {
      CurrentContext::Set(api_, slab.pinned_in);
      api_.cuMemHostUnregister(base);
    }
    munmap(base, slab.bytes);
    at = slabs_.erase(at);
  }
}

void HostSlabs::ForgetContext(CUcontext context) {
  std::lock_guard lock(mutex_);
  for (auto& [base, slab] : slabs_)
    if (slab.pinned_in == context) slab.pinned_in = nullptr;
}

}  // namespace farcall::server
