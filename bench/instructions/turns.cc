// SPDX-License-Identifier: Apache-2.0
// What the CPU device's executor does for the threads of a block, to be counted: `turns` asks
// kTurns times whether any of 1,024 threads stays in a loop, in the function Counted, whose costs
// callgrind writes down.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cpu-device/exec/block_warp_ops.h"

namespace {

constexpr int kTurns = 1000;
constexpr uint32_t kThreads = 1024;

}  // namespace

extern "C" __attribute__((noinline)) uint32_t Counted(
    const farcall::cpu_device::BlockContext& block, const std::vector<uint8_t>& stays,
    const std::vector<uint8_t>& left) {
  uint32_t turns = 0;
  for (int i = 0; i < kTurns; ++i)
    turns += farcall::cpu_device::ReducePredicates(&block, farcall::cpu_device::BarrierReduce::kOr,
                                                   stays.data(), 1, left.data());
  return turns;
}

int main() {
  farcall::cpu_device::LaunchContext launch;
  launch.block[0] = kThreads;
  launch.block[1] = launch.block[2] = 1;
  farcall::cpu_device::BlockContext block;
  block.launch = &launch;
  std::vector<uint8_t> stays(kThreads), left(kThreads);
  stays.back() = 1;
  left.front() = 1;
  if (Counted(block, stays, left) != kTurns) return 1;
  std::printf("%d\n", kTurns);
  return 0;
}
