// SPDX-License-Identifier: Apache-2.0
// Channel descriptors of the runtime as formats of the driver, and back.
#pragma once

#include "client-shim/cudart/thread.h"

namespace farcall::cudart {

struct Channels {
  CUarray_format format;
  unsigned count;
};

// Errors  cudaErrorInvalidChannelDescriptor
cudaError_t ToDriver(const cudaChannelFormatDesc& from, Channels* to);
cudaError_t FromDriver(const Channels& from, cudaChannelFormatDesc* to);
// Bytes of an element; 0 for a format whose elements share blocks or are unknown.
size_t BytesOf(CUarray_format format, unsigned channels);

}  // namespace farcall::cudart
