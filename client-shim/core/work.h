// SPDX-License-Identifier: Apache-2.0
// What a record means to whoever waits: work whose results are missed if it fails, a wait itself,
// or nothing that a wait could tell of.
#pragma once

#include "proto/call_id.h"

namespace farcall::client {

// Work on a stream. One that failed never ran: its results are missing.
constexpr bool IsWork(CallId call) {
  switch (call) {
    case CallId::cuLaunchKernel:
    case CallId::cuGraphLaunch:
    case CallId::cuMemcpyHtoDAsync_v2:
    case CallId::cuMemcpyDtoHAsync_v2:
    case CallId::cuMemcpy3DAsync_v2:
    case CallId::cuMemcpyDtoDAsync_v2:
    case CallId::cuMemcpyPeerAsync:
    case CallId::cuMemsetD8Async:
    case CallId::cuMemsetD16Async:
    case CallId::cuMemsetD32Async:
    case CallId::cuMemsetD2D8Async:
    case CallId::cuMemsetD2D16Async:
    case CallId::cuMemsetD2D32Async:
      return true;
    default:
      return false;
  }
}

// Its success says that work is complete, so that a program looks at results.
constexpr bool IsWait(CallId call) {
  switch (call) {
    case CallId::cuStreamSynchronize:
    case CallId::cuStreamQuery:
    case CallId::cuEventSynchronize:
    case CallId::cuEventQuery:
    case CallId::cuCtxSynchronize_v2:
    case CallId::cuMemcpyDtoHAsync_v2:
    case CallId::cuMemcpy3DAsync_v2:
      return true;
    default:
      return false;
  }
}

// Puts nothing on a stream that a wait could tell of: what it makes is there for every later
// record, and an upload's bytes were captured at the call (other uploads say so:
// Session::NoteWork).
constexpr bool IsQuiet(CallId call) {
  switch (call) {
    case CallId::cuDevicePrimaryCtxRetain:
    case CallId::cuCtxCreate_v4:
    case CallId::cuMemAlloc_v2:
    case CallId::cuMemFree_v2:
    case CallId::cuMemcpyHtoDAsync_v2:
    case CallId::cuModuleLoadDataEx:
    case CallId::cuModuleGetFunction:
    case CallId::cuModuleGetGlobal_v2:
    case CallId::cuLibraryLoadData:
    case CallId::cuLibraryGetKernel:
    case CallId::cuStreamCreateWithPriority:
    case CallId::cuEventCreate:
    case CallId::cuStreamSynchronize:
    case CallId::cuEventSynchronize:
    case CallId::cuCtxSynchronize_v2:
    case CallId::cuMemGetInfo_v2:
      return true;
    default:
      return false;
  }
}

}  // namespace farcall::client
