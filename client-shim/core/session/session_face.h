// SPDX-License-Identifier: Apache-2.0
// The face of the session that generated entries and hand-written calls see.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "client-shim/core/session/thread_state.h"
#include "generated/proto/call_id.h"    // generated
#include "generated/proto/call_info.h"  // generated
#include "proto/codec.h"
#include "proto/wire.h"

namespace farcall::client {

// What must hold before a call: checked by Enter.
enum class Needs : uint8_t { kNothing, kInit, kContext };

// A reply's outputs, after its status.
class Reply {
 public:
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  CUresult status = CUDA_ERROR_UNKNOWN;
  Reader outputs() const { return Reader(body); }
  std::span<const std::byte> body;

  // Room for the body, of exactly so many bytes; most fit into the object.
  std::span<std::byte> Allot(size_t bytes) {
    std::byte* room = small_;
    if (bytes > sizeof(small_)) {
      large_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      room = large_.get();
    }
    body = {room, bytes};
    return {room, bytes};
  }

 private:
  std::unique_ptr<std::byte[]> large_;
  alignas(8) std::byte small_[64];  // not cleared
};

// For calls marked `capture: unsafe`: CUDA_SUCCESS, or the refusal; then the captures that forbid
// it are invalid.
CUresult CheckUnsafeInCapture();

// While CUDA is initialised, the session lives, calls are not counted and not made synchronous: an
// entry then has to look at its thread alone.
extern std::atomic<bool> g_all_clear;
// After what it depends on has changed.
void UpdateAllClear();

// Counts the call, checks init, fork and context; nullptr-safe. Returns CUDA_SUCCESS or the code
// the entry must return.
CUresult EnterWithCare(CallId call, Needs needs);
// The calling thread, if all is clear and its context lives; else null: then with care.
[[gnu::always_inline]] inline ThreadState* ClearThread() {
  if (!g_all_clear.load(std::memory_order_acquire)) [[unlikely]]
    return nullptr;
  ThreadState* self = t_thread;
  const Context* context = self == nullptr ? nullptr : self->current;
  const bool is_alive = context != nullptr && context->alive.load(std::memory_order_relaxed);
  return is_alive ? self : nullptr;
}
[[gnu::always_inline]] inline CUresult Enter(CallId call, Needs needs) {
  if (needs == Needs::kContext && ClearThread() != nullptr) [[likely]]
    return InfoOf(call).capture == CallCapture::kUnsafe ? CheckUnsafeInCapture() : CUDA_SUCCESS;
  return EnterWithCare(call, needs);
}

// When a posted record leaves.
enum class Leaves : uint8_t {
  kLater,    // with its batch: when that is full, else within about 50 us
  kNow,      // beside megabytes on the lanes a system call costs nothing, and the flusher sleeps on
  kFlushed,  // by the flusher only: for a thread that must not touch the socket
};
// What else a post does.
struct PostOptions {
  uint64_t transfer = 0;       // chunks of it are the record's answer; its failure forgets it
  uint32_t* serial = nullptr;  // room for the record's, if wanted; 0 under FARCALL_SYNC
  Leaves leaves = Leaves::kLater;
};
inline constexpr PostOptions kPlainPost;

// Appends one record to the log. One-way: returns a late error of the current context if there is
// one, else CUDA_SUCCESS. With FARCALL_SYNC=1 it waits and returns the call's own status.
//   `tail`  follows `head`, whose size is then a multiple of 8, without being copied first
CUresult Post(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail = {},
              const PostOptions& options = kPlainPost);

// Appends, flushes, waits for the reply. Returns the API's status, or the mapped code of our own
// failure.
CUresult RoundTrip(CallId call, std::span<const std::byte> body, Reply* reply);

// As RoundTrip, or what the same question was answered before in this context: until a call that
// `renews`. Only successes are kept.
CUresult Query(CallId call, std::span<const std::byte> body, Reply* reply);

// Handles: the application's value is the wire value.
uint64_t NewHandle(HandleKind kind, CUresult* error);  // reserves index and generation
bool CheckHandle(HandleKind kind, uint64_t handle);    // live, right kind
void FreeHandle(HandleKind kind, uint64_t handle);

// 0 -> 1 (legacy) or 2 (per-thread); others pass. Unknown stream: *error = INVALID_HANDLE.
uint64_t WireStream(CUstream stream, bool per_thread_default, CUresult* error);

// An ordinal as the server counts; CUDA_VISIBLE_DEVICES may have renumbered the application's. No
// such device: *error = INVALID_DEVICE.
int32_t WireDevice(CUdevice device, CUresult* error);

// [address, address + bytes) lies inside one allocation of device memory. Nothing (0 bytes) lies
// anywhere.
bool HoldsMemory(uint64_t address, uint64_t bytes);

// Answers a call nobody implements: logs once, returns NOT_SUPPORTED.
CUresult NotSupported(CallId call);

}  // namespace farcall::client
