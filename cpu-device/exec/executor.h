// SPDX-License-Identifier: Apache-2.0
// The executor's settings and the run of one grid over the pool.
#pragma once

#include <chrono>
#include <functional>

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

const ExecutorOptions& Options();

struct AddressWindow {
  uint64_t begin = 0;
  uint64_t size = 0;
};
AddressWindow ReservedWindow();  // what SetReservedWindow said last

// Code for the blocks of a grid that have not begun when it has run for `after`: `make` compiles it
// on the thread that called RunGrid, nullptr if there is none after all. The shape lives as long as
// the grid runs.
struct BetterCode {
  std::chrono::nanoseconds after{0};
  std::function<const BlockShape*()> make;  // empty: there is none
};

// Runs all blocks of a grid on the calling thread and the pool's.
//   launch  its grid, block and pointers are set
//   Thread  any, several at once
ExecResult RunGrid(const BlockShape& shape, LaunchContext* launch, const BetterCode& better);

// How often a thread has taken blocks of a grid, in all grids that have ended: each time is one
// atomic operation on what all threads share.
uint64_t RunsTaken();

}  // namespace farcall::cpu_device
