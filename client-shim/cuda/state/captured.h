// SPDX-License-Identifier: Apache-2.0
// What calls do on a capturing stream where the client has a part in it: nodes of its own making.
// `stream` values are the application's.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace farcall::client {

struct Stream;

CUresult CaptureEvent(CUstream stream, CUevent event, CUgraphNodeType type);
CUresult CaptureHostFunction(CUstream stream, CUhostFn function, void* user_data);
// Copies with a side in host memory. `sync`: the call may not be captured.
CUresult CaptureCopy(CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t bytes, bool sync);
CUresult CaptureBox(CUstream stream, const CUDA_MEMCPY3D& copy, bool sync);
CUresult CaptureAllocation(CUstream stream, CUdeviceptr* address, size_t bytes);
CUresult CaptureFree(CUstream stream, CUdeviceptr address);
// The stream goes amid its capture.
void AbandonCapture(Stream* stream, CUstream handle);
// A capture is over and nobody may see what it made. `owned`: the graph is the capture's own;
// `made`: the server has it.
void ForgetCaptured(uint64_t graph, bool owned, bool made);

}  // namespace farcall::client
