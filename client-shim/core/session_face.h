// SPDX-License-Identifier: Apache-2.0
// The face of the session that generated entries and hand-written calls see.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>

#include "proto/call_id.h"  // generated
#include "proto/codec.h"
#include "proto/wire.h"

namespace farcall::client {

// What must hold before a call: checked by Enter.
enum class Needs : uint8_t { kNothing, kInit, kContext };

// A reply's outputs, after its status.
class Reply {
 public:
  CUresult status = CUDA_ERROR_UNKNOWN;
  Reader outputs() const { return Reader(body); }
  std::span<const std::byte> body;
  std::unique_ptr<std::byte[]> owned;
};

// Counts the call, checks init, fork and context; nullptr-safe. Returns CUDA_SUCCESS or the code
// the entry must return.
CUresult Enter(CallId call, Needs needs);

// For calls marked `capture: unsafe`, after Enter: CUDA_SUCCESS, or the refusal; then the captures
// that forbid it are invalid.
CUresult CheckUnsafeInCapture();

// Appends one record to the log. One-way: returns a late error of the current context if there is
// one, else CUDA_SUCCESS. With FARCALL_SYNC=1 it waits and returns the call's own status.
CUresult Post(CallId call, std::span<const std::byte> body);

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
