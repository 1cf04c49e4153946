// SPDX-License-Identifier: Apache-2.0
// What cuMemCreate's record says of the memory beside its size and place.
#pragma once

#include <cstdint>

namespace farcall {

// It may be exported; the header's usages (tile pool, decompression), shifted.
inline constexpr uint32_t kMemoryExportable = 1;
inline constexpr uint32_t kMemoryUsages = 3, kMemoryUsageShift = 8;

}  // namespace farcall
