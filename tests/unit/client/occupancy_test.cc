// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/launch/occupancy.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

// A multiprocessor of compute capability 8.0, from the programming guide's table of technical
// specifications.
OccupancyInputs Ampere() {
  OccupancyInputs inputs;
  inputs.max_threads_per_sm = 2048;
  inputs.max_blocks_per_sm = 32;
  inputs.registers_per_sm = 65536;
  inputs.shared_per_sm = 164u << 10;
  inputs.reserved_shared_per_block = 1024;
  inputs.registers_per_thread = 32;
  return inputs;
}

TEST(Occupancy, ThreadsBoundIt) {
  EXPECT_EQ(ActiveBlocks(Ampere(), 256, 0), 8);
  EXPECT_EQ(ActiveBlocks(Ampere(), 1024, 0), 2);
}

TEST(Occupancy, BlocksBoundSmallOnes) {
  EXPECT_EQ(ActiveBlocks(Ampere(), 32, 0), 32);
}

TEST(Occupancy, RegistersBoundIt) {
  OccupancyInputs inputs = Ampere();
  inputs.registers_per_thread = 64;
  EXPECT_EQ(ActiveBlocks(inputs, 256, 0), 4);
  inputs.registers_per_thread = 255;
  EXPECT_EQ(ActiveBlocks(inputs, 1024, 0), 0);
}

TEST(Occupancy, SharedMemoryBoundsIt) {
  OccupancyInputs inputs = Ampere();
  inputs.static_shared = 48u << 10;
  EXPECT_EQ(ActiveBlocks(inputs, 128, 0), 3);  // 49 KiB each with the reserve
}

TEST(Occupancy, ABlockThatFitsNowhereIsZero) {
  EXPECT_EQ(ActiveBlocks(Ampere(), 0, 0), 0);
  EXPECT_EQ(ActiveBlocks(Ampere(), 128, 200u << 10), 0);
}

}  // namespace
}  // namespace farcall::client
