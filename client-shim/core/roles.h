// SPDX-License-Identifier: Apache-2.0
// Helpers of the generated bodies: one per role of the spec that needs more than a Put.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client-shim/core/session/session_face.h"
#include "proto/codec.h"
#include "proto/cuda/extent.h"
#include "proto/wire.h"

namespace farcall::client {

// Room for a body of scalars and handles; the generator checks that it suffices.
using BodyRoom = std::array<std::byte, 512>;

inline std::span<const std::byte> Written(const BodyRoom& room, const Writer& body) {
  return std::span<const std::byte>(room).first(body.size_bytes());
}

// Where devices have what the program has at `address` (cuda/state/mirror.cc).
uint64_t AddressOnDevice(uint64_t address);

// The application's handle is the wire value.
template <typename Handle>
uint64_t WireHandle(Handle* handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// True if `handle` is live and of one of `kinds`: some calls take a kernel in a function's place.
template <typename Handle, typename... Kinds>
bool IsHandle(Handle* handle, Kinds... kinds) {
  return (CheckHandle(kinds, WireHandle(handle)) || ...);
}

// A count, then the handles. The server rejects one of another kind.
template <typename Handle>
void PutHandles(Builder& body, Handle* const* handles, uint64_t count) {
  body.Put<uint64_t>(count);
  for (uint64_t i = 0; i < count; ++i) body.Put<uint64_t>(WireHandle(handles[i]));
}

// What 0 means to an entry built for the per-thread default stream.
inline CUstream PerThread(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace farcall::client
