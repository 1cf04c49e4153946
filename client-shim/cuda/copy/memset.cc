// SPDX-License-Identifier: Apache-2.0
// Fills that the host may see: "asynchronous with respect to the host except when the target is
// pinned host memory or a Unified Memory region, in which case they are fully synchronous".
//   Source  CUDA Runtime API 13.0, API synchronization behavior, Memset
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"
#include "generated/client/handwritten.h"

namespace farcall::client {

namespace {

CUresult AwaitFill(CUresult posted, CUdeviceptr dst, CUstream default_stream) {
  if (posted != CUDA_SUCCESS || !IsHostReadable(dst)) return posted;
  Stream* stream = FindStream(default_stream);
  if (Captures(stream)) return posted;
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(default_stream, false, &status);
  return status != CUDA_SUCCESS ? status : AwaitStream(wire);
}

}  // namespace

CUresult Call_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                            CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD8Async(dstDevice, uc, N, default_stream), dstDevice,
                   default_stream);
}

CUresult Call_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N,
                             CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD16Async(dstDevice, us, N, default_stream), dstDevice,
                   default_stream);
}

CUresult Call_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                             CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD32Async(dstDevice, ui, N, default_stream), dstDevice,
                   default_stream);
}

CUresult Call_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                              size_t Width, size_t Height, CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, default_stream),
                   dstDevice, default_stream);
}

CUresult Call_cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                               size_t Width, size_t Height, CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, default_stream),
                   dstDevice, default_stream);
}

CUresult Call_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                               size_t Width, size_t Height, CUstream default_stream) {
  return AwaitFill(Post_cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, default_stream),
                   dstDevice, default_stream);
}

}  // namespace farcall::client
