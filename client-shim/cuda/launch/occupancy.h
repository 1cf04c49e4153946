// SPDX-License-Identifier: Apache-2.0
// The occupancy rules CUDA documents (programming guide, multiprocessor level), from attributes
// alone.
#pragma once

#include <cstddef>

namespace farcall::client {

struct OccupancyInputs {
  int warp_size = 32;
  int max_threads_per_sm = 0;
  int max_blocks_per_sm = 0;
  int registers_per_sm = 0;
  size_t shared_per_sm = 0;
  size_t reserved_shared_per_block = 0;
  int registers_per_thread = 0;
  size_t static_shared = 0;
};

// Blocks of `block_size` threads and `dynamic_shared` bytes that fit a multiprocessor at once.
int ActiveBlocks(const OccupancyInputs& inputs, int block_size, size_t dynamic_shared);

}  // namespace farcall::client
