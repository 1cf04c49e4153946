// SPDX-License-Identifier: Apache-2.0
// A context as the client knows it: its slot, its late errors, its frees. Contexts are never
// deleted, so a stale pointer stays readable.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "transport/sync.h"

namespace farcall::client {

class Session;
struct Device;
struct DeviceLimits;
struct GreenContext;

struct Context {
  uint64_t handle = 0;
  uint16_t slot = 0;           // the handle's index: what records carry
  Session* session = nullptr;  // its device's
  int device = 0;              // as the application counts
  int server_device = 0;
  bool primary = false;
  GreenContext* green = nullptr;  // whose part of the device it works on
  unsigned flags = 0;
  uint64_t id = 0;  // cuCtxGetId
  std::atomic<bool> alive{false};
  std::atomic<int> uses{1};        // cuCtxAttach, cuCtxDetach
  std::atomic<uint32_t> ends{0};   // how often it was reset or destroyed
  std::atomic<int> late_error{0};  // CUresult of a post that failed
  std::atomic<bool> sticky{false};
  // Of work that failed on the server and never ran: until a wait has told of it.
  std::atomic<int> lost_work{0};
  // Session::records() when its legacy stream, or all of it, was last waited for.
  std::atomic<uint64_t> legacy_waited{0}, all_waited{0};
  std::atomic<bool> legacy_copied{false};  // as Stream::copied
  std::atomic<uint32_t> unordered_streams{
      0};                                // live streams that do not synchronise with the legacy one
  std::atomic<uint32_t> captures{0};     // streams in capture
  Mutex free_mutex;                      // orders (epoch, post) pairs
  uint64_t free_epoch = 0;               // last epoch given
  std::atomic<uint64_t> freed_epoch{0};  // last epoch the server has reported
  std::atomic<int> cache_config{0}, shared_config{0};
  // Its device's, from the first launch on; that table lives for ever.
  std::atomic<const DeviceLimits*> limits{nullptr};
};

// Returns the context's late error and forgets it, unless it is sticky.
inline CUresult TakeLateError(Context* context) {
  if (context->late_error.load(std::memory_order_relaxed) == 0) [[likely]]
    return CUDA_SUCCESS;
  if (context->sticky.load(std::memory_order_acquire))
    return static_cast<CUresult>(context->late_error.load(std::memory_order_relaxed));
  return static_cast<CUresult>(context->late_error.exchange(0));
}

// The same at a wait, behind which results are looked at: it also tells of work whose failure an
// earlier call has told already, as nobody need have listened.
inline CUresult TakeErrorAtWait(Context* context) {
  CUresult late = TakeLateError(context);
  int lost = context->lost_work.load(std::memory_order_relaxed);
  if (lost == 0 || (late != CUDA_SUCCESS && late != lost)) [[likely]]
    return late;
  return static_cast<CUresult>(context->lost_work.exchange(0));
}

// Keeps the first error; a sticky one replaces a plain one.
void RecordLateError(Context* context, CUresult error);

// A new context's slot and handle; nullptr: 65,535 are in use.
//   `device`  `ordinal`'s, as the application counts
Context* NewContext(int ordinal, const Device& device, bool primary, unsigned flags);
// From the application's value: live, else nullptr.
Context* FindContext(CUcontext handle);
// From a record's slot: any context that ever held it, else nullptr.
Context* ContextBySlot(uint16_t slot);
void RetireContext(Context* context);

inline CUcontext AsCuda(const Context* context) {
  return context == nullptr ? nullptr : reinterpret_cast<CUcontext>(context->handle);
}

}  // namespace farcall::client
