// SPDX-License-Identifier: Apache-2.0
// Puts a generated client body on one end and the generated server function on the other, with a
// device library that records.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "generated/proto/call_id.h"
#include "generated/server/driver_api.h"
#include "proto/wire.h"
#include "server/state/serve.h"

namespace farcall::wire_test {

// The client's ordinals and the server's, so far apart in these tests.
inline constexpr int kDeviceShift = 3;

// A handle that the client side holds to be live.
template <typename Handle>
Handle LiveHandle(HandleKind kind, uint32_t index) {
  return reinterpret_cast<Handle>(MakeHandle(kind, index, 1));
}

// What the server side resolves a wire handle or stream to.
inline uint64_t NativeOf(uint64_t wire) {
  return wire ^ 0x5A5A000000000000;
}
template <typename Handle>
Handle Native(Handle client_handle) {
  return reinterpret_cast<Handle>(NativeOf(reinterpret_cast<uint64_t>(client_handle)));
}

struct HandleEvent {
  HandleKind kind;
  uint64_t wire;
  void* native;
};

// One call under test. The generated test sets `api`'s function, runs the client body, then asks
// what was seen.
class Wire : public ::testing::Test {
 public:
  Wire();
  ~Wire() override;

  server::DriverApi api;

  static int native_calls;  // counted by the recording function
  static CUresult answer;   // what it returns

  // The record goes to `serve`. Before it, each shorter body and an empty device library must be
  // refused without effect.
  void Serve(CallId call, server::ServeFunction serve);
  CUresult Deliver(CallId call, std::span<const std::byte> body, std::vector<std::byte>* reply);

  std::vector<HandleEvent> inserted;
  std::vector<HandleEvent> erased;
  std::vector<HandleEvent> freed_on_client;
  uint64_t last_extent = 0;  // bytes of the last address resolved
  bool rejected = false;     // the next resolve finds a lie
  bool well_formed = true;   // false: the test delivers a body that lies
  bool last_was_ok = true;   // the last serve's Status

  static Wire* current;

 private:
  void CheckShorterBodies(std::span<const std::byte> body);

  CallId call_{};
  server::ServeFunction serve_ = nullptr;
};

}  // namespace farcall::wire_test
