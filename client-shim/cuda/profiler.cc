// SPDX-License-Identifier: Apache-2.0
// The profiler's switch: the device's profiler hears of it, and the statistics count the range
// apart.
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/calls.h"
#include "generated/client/calls.h"

namespace farcall::client {

// Since CUDA 12 that is all it answers anywhere.
CUresult Call_cuProfilerInitialize(const char*, const char*, CUoutput_mode) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Call_cuProfilerStart() {
  CUresult status = Post_cuProfilerStart();
  OpenStatsRange();
  return status;
}

CUresult Call_cuProfilerStop() {
  CloseStatsRange();
  return Post_cuProfilerStop();
}

}  // namespace farcall::client
