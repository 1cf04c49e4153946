// SPDX-License-Identifier: Apache-2.0
// What one record's server function sees: the record, the session's tables, the device library, the
// reply under construction.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "proto/codec.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "server/state/objects/side_queue.h"

namespace farcall::server {

class Session;
struct ContextState;
struct StreamState;
struct DriverApi;  // generated/server/driver_api.h: one pointer per exported name, named as the
                   // name

// A call being served. The function decodes from `in`, checks Done(), resolves, calls, encodes into
// `out`, sets `result`.
//   Errors  a failed Status means the record lied and ends the session; an API failure is `result`
//   Thread  the issue thread (or the helper of a slow call)
struct ServeCall {
  ServeCall(Session& of, const DriverApi& with, const RecordHeader& record,
            std::span<const std::byte> body, Turn& kept)
      : session(of), api(with), header(record), in(body), turn(kept) {}

  Session& session;
  const DriverApi& api;
  const RecordHeader& header;
  Reader in;
  Builder out;  // reply body after {status, 0}
  CUresult result = CUDA_SUCCESS;
  std::string detail;   // one line for the error ring
  bool parked = false;  // the reply comes later, from the session's completion thread
  bool stalled =
      false;   // cannot go on yet, and nothing has been done: the record is served again later
  Turn& turn;  // kept across stalls
  bool on_helper = false;           // a slow call, on the helper: handles it lacks will not come
  ContextState* context = nullptr;  // header.context's, current; null if the call needs none

  // Each resolves a wire handle to the native one. A lie makes lie() true; a stale handle sets
  // `result`.
  template <typename Native>
  Native Resolve(HandleKind kind, uint64_t wire, bool optional = false) {
    return reinterpret_cast<Native>(ResolveRaw(kind, wire, optional));
  }
  CUstream ResolveStream(uint64_t wire);  // 1, 2 or a handle; the record puts work on it
  StreamState* FindStream(
      uint64_t wire);  // as ResolveStream, without marking work; null if not ready()
  void* ResolveExtra(HandleKind kind,
                     uint64_t wire);  // what the server keeps beside the native object
  CUdeviceptr ResolveAddress(uint64_t wire,
                             uint64_t bytes);  // inside the session's own windows, else a lie
  CUdevice ResolveDevice(int32_t ordinal);     // out of range: INVALID_DEVICE
  void Insert(HandleKind kind, uint64_t wire, void* native);  // after the native create succeeded
  void Erase(HandleKind kind, uint64_t wire);                 // before the native destroy
  // For a handle to be created: index free or older generation, kind right.
  void CheckNew(HandleKind kind, uint64_t wire);

  bool ready() const { return !rejected_ && !stalled && result == CUDA_SUCCESS; }
  bool rejected() const { return rejected_; }
  // A question about work that stands in the side queue: not ready is the answer, at once.
  bool AnswerNotReady();
  Status Malformed(const char* what) const;  // names the call and the field
  Status RejectStatus() const;               // ok() if nothing lied

  void Reject(const char* what);

 private:
  bool MayUse(const StreamState& stream);
  void* ResolveRaw(HandleKind kind, uint64_t wire, bool optional);
  bool rejected_ = false;
  const char* reject_reason_ = "";
};

using ServeFunction = Status (*)(ServeCall& call);

// One row per CallId, generated (generated/server/cuda_calls.cc); serve == nullptr: not
// supported by this server. The nature of the call: kCallInfo (proto/call_info.h).
struct DispatchRow {
  const char* name = nullptr;
  ServeFunction serve = nullptr;
};
extern const DispatchRow kDispatchTable[];
extern const uint16_t kDispatchRows;

}  // namespace farcall::server
