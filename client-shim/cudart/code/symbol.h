// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "client-shim/cudart/thread.h"

namespace farcall::cudart {

// The address `offset` bytes into a device variable that holds `count` bytes from there on.
//   Errors  cudaErrorInvalidSymbol, cudaErrorInvalidValue (past its end), the driver's of loading
cudaError_t InSymbol(const void* symbol, size_t offset, size_t count, void** address);
bool MayCopyToDevice(cudaMemcpyKind kind);
bool MayCopyFromDevice(cudaMemcpyKind kind);

}  // namespace farcall::cudart
