// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

namespace farcall::client {

// False: no managed memory begins there. Waits for the device.
bool FreeManaged(CUdeviceptr pointer, CUresult* status);

// What advice and prefetches may be about though it was not allocated.
void AddManagedRange(CUdeviceptr pointer, size_t bytes);
void DropManagedRange(CUdeviceptr pointer);

}  // namespace farcall::client
