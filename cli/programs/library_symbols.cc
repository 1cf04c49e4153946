// SPDX-License-Identifier: Apache-2.0
// `dlsym` as the libraries of a worker find it: a program's own comes before libc's. What they look
// up of the driver charges the tenant (server/memory/library_memory.h); all else is libc's answer.
// In the program alone: no library of ours, and no test, has a dlsym of its own.
#include <dlfcn.h>

#include <atomic>

#include "server/memory/library_memory.h"

namespace {

#ifdef __x86_64__
constexpr const char* kOldest = "GLIBC_2.2.5";
#else
constexpr const char* kOldest = "GLIBC_2.17";
#endif

using Lookup = void* (*)(void* handle, const char* name);

// No static of a function: its guard is not there yet when the first constructors ask.
std::atomic<Lookup> libc_dlsym{nullptr};

Lookup LibcDlsym() {
  Lookup found = libc_dlsym.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", kOldest));
    libc_dlsym.store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(
    void* __restrict handle, const char* __restrict name) noexcept {
  const Lookup lookup = LibcDlsym();
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
    return lookup(handle, name);  // a jump: who asks is told by the return address
  return farcall::server::LibraryMemory::Instead(name, lookup(handle, name));
}
