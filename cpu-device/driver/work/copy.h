// SPDX-License-Identifier: Apache-2.0
// Checks a copy's two ends and puts it into a stream as CUDA orders it.
#pragma once

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {

// What an entry's name says about one end.
enum class End {
  kHost,     // any host memory
  kDevice,   // memory this device knows
  kUnified,  // either: the address tells
};

// Queues (or does, when `sync`) the copy in the stream `handle` of the current context.
//   Errors  INVALID_VALUE (an end outside known memory), INVALID_HANDLE (the stream)
CUresult SubmitCopy(CUstream handle, const CopyOp& copy, End dst, End src, bool sync);

CUresult FromMemcpy2D(const CUDA_MEMCPY2D* copy, CopyOp* op, End* dst, End* src);
CUresult FromMemcpy3D(const CUDA_MEMCPY3D* copy, CopyOp* op, End* dst, End* src);

}  // namespace farcall::cpu_device
