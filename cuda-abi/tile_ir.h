// SPDX-License-Identifier: Apache-2.0
// CUDA Tile's byte code: how long it is. What it says only a driver reads.
#pragma once

#include <cstdint>

namespace farcall::cuda_abi {

inline constexpr uint32_t kTileIrMagic = 0x6C69547F;  // "\x7fTileIR"

// From its magic to the mark of its end; 0 if there is none within `limit` bytes, past which
// nothing is read.
//   Source  Tile IR 13.1, binary format
uint64_t TileIrBytes(const uint8_t* code, uint64_t limit);

}  // namespace farcall::cuda_abi
