// SPDX-License-Identifier: Apache-2.0
// Device memory that one process of a vGPU lends to others: what stands in the bytes which the
// application carries there, and opening it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-shim/core/memory_map.h"
#include "proto/wire.h"

namespace farcall::client {

struct LentMemory {
  ShareToken token;
  uint64_t span_bytes = 0;  // of the chunks the allocation lies in
  uint64_t offset = 0;      // of the allocation in them
  uint64_t bytes = 0;       // of the allocation
};

// Which call it was opened with: the same kind ends it.
enum class LentBy : uint8_t { kHandle, kPool };

// A round trip: memory of a block of credit, from its first byte.
CUresult Lend(const Allocation& allocation, LentMemory* lent);
// Mapped once however often it is opened. `lent` comes from another process: all of it is checked.
CUresult OpenLent(const LentMemory& lent, LentBy by, CUdeviceptr* pointer);
// False: nothing was opened so. Waits for the device's work.
bool CloseLent(CUdeviceptr pointer, LentBy by, CUresult* status);

}  // namespace farcall::client
