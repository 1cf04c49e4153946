// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmaps as the client knows them: shape, format, and what they are part of.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <vector>

#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/session/contexts.h"

namespace farcall::client {

struct Array {
  uint64_t handle = 0;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  uint64_t parent = 0;  // the mipmap or the array it is a part of; 0: its own
  Context* context = nullptr;
  std::map<unsigned, uint64_t> parts;    // levels or planes that were asked for: their handles
  std::vector<PhysicalMemory*> backing;  // mapped to it, until it goes; under UserRanges().mutex()
};

Array* FindArray(CUarray array);
Array* FindMipmappedArray(CUmipmappedArray array);

// Bytes of an element; 0: its format has planes or blocks, and sizes are the driver's to say.
uint64_t ElementBytes(const CUDA_ARRAY3D_DESCRIPTOR& shape);
// True if the box of `width` bytes lies in the array, as far as the client can tell.
bool HoldsBox(const Array& array, uint64_t x_bytes, uint64_t y, uint64_t z, uint64_t width_bytes,
              uint64_t height, uint64_t depth);
// What is gone with a context.
void DropContextArrays(Context* context);

}  // namespace farcall::client
