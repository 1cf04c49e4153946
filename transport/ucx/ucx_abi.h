// SPDX-License-Identifier: Apache-2.0
// The part of libucp's binary interface that ucx:// uses: libucp.so.0, from UCX 1.13 on. A build
// needs no header of UCX. The library reads only the members that a structure's mask names, and
// newer releases add members at the end; the room kept there lets them look. Where the headers are
// installed, tests/transport/ucx_abi_test.cc compares every offset with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::ucx {

// Opaque. A request pointer may also be null (done) or a small negative number (an error).
using Context = struct ContextTag*;
using Worker = struct WorkerTag*;
using Endpoint = struct EndpointTag*;
using Address = struct AddressTag;
using Request = void*;

// One byte wide: the library's enumeration is packed.
using StatusCode = int8_t;
inline constexpr StatusCode kOk = 0, kInProgress = 1, kBusy = -15, kRejected = -23,
                            kLastError = -100;

inline bool IsError(Request request) {
  return reinterpret_cast<uintptr_t>(request) >= static_cast<uintptr_t>(intptr_t{kLastError});
}
inline StatusCode ErrorOf(Request request) {
  return static_cast<StatusCode>(reinterpret_cast<intptr_t>(request));
}

inline constexpr unsigned kApiMajor = 1, kApiMinor = 13;

// Bits of ContextParams::features.
inline constexpr uint64_t kFeatureWakeup = 1u << 4, kFeatureActiveMessages = 1u << 6;

struct ContextParams {
  static constexpr uint64_t kFeatures = 1u << 0, kShared = 1u << 5, kName = 1u << 8;
  uint64_t mask = 0;
  uint64_t features = 0;
  size_t request_bytes = 0;
  void (*request_init)(void*) = nullptr;
  void (*request_cleanup)(void*) = nullptr;
  uint64_t tag_sender_mask = 0;
  int is_shared = 0;  // its workers are different threads'
  size_t endpoints = 0, processes = 0;
  const char* name = nullptr;
  uint64_t room[16] = {};
};

struct WorkerParams {
  static constexpr uint64_t kThreadMode = 1u << 0;
  static constexpr int kSerialized = 1;  // any thread, one at a time
  uint64_t mask = 0;
  int thread_mode = 0;
  uint64_t cpus[16] = {};
  unsigned events = 0;
  void* user_data = nullptr;
  int event_fd = -1;
  uint64_t flags = 0;
  const char* name = nullptr;
  size_t message_alignment = 0;
  uint64_t client_id = 0;
  uint64_t room[16] = {};
};

using ErrorCallback = void (*)(void* argument, Endpoint endpoint, StatusCode status);

struct EndpointParams {
  static constexpr uint64_t kAddress = 1u << 0, kErrorMode = 1u << 1, kErrorHandler = 1u << 2;
  static constexpr int kPeerErrors = 1;  // the death of the peer is told
  uint64_t mask = 0;
  const Address* address = nullptr;
  int error_mode = 0;
  ErrorCallback on_error = nullptr;
  void* error_argument = nullptr;
  void* user_data = nullptr;
  unsigned flags = 0;
  uint64_t room[24] = {};
};

struct ReceiveParams {
  static constexpr uint64_t kRendezvous = 1u << 17;  // `data` names bytes that are still there
  uint64_t attributes = 0;
  Endpoint reply_endpoint = nullptr;
};

using MessageCallback = StatusCode (*)(void* argument, const void* header, size_t header_bytes,
                                       void* data, size_t bytes, const ReceiveParams* params);

struct HandlerParams {
  static constexpr uint64_t kId = 1u << 0, kFlags = 1u << 1, kCallback = 1u << 2,
                            kArgument = 1u << 3;
  static constexpr uint32_t kWholeMessage = 1u << 0;
  uint64_t mask = 0;
  unsigned id = 0;
  uint32_t flags = 0;
  MessageCallback callback = nullptr;
  void* argument = nullptr;
  uint64_t room[8] = {};
};

using SendCallback = void (*)(Request request, StatusCode status, void* user_data);
using LandCallback = void (*)(Request request, StatusCode status, size_t bytes, void* user_data);

struct RequestParams {
  static constexpr uint32_t kCallback = 1u << 1, kUserData = 1u << 2, kFlags = 1u << 4;
  static constexpr uint32_t kCloseForce = 1u << 0;  // in `flags` of a close
  uint32_t mask = 0;
  uint32_t flags = 0;
  Request request = nullptr;
  union {
    SendCallback send = nullptr;
    LandCallback land;
  };
  uint64_t datatype = 0;
  void* user_data = nullptr;
  void* reply_buffer = nullptr;
  int memory_type = 0;
  void* info = nullptr;
  void* memory_handle = nullptr;
  uint64_t room[8] = {};
};

}  // namespace farcall::ucx
