// SPDX-License-Identifier: Apache-2.0
// The executor's settings and the run of one grid over the pool.
#pragma once

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

const ExecutorOptions& Options();

struct AddressWindow {
  uint64_t begin = 0;
  uint64_t size = 0;
};
AddressWindow ReservedWindow();  // what SetReservedWindow said last

// Runs all blocks of a grid on the calling thread and the pool's.
//   launch  its grid, block and pointers are set
//   Thread  any, several at once
ExecResult RunGrid(const BlockShape& shape, LaunchContext* launch);

}  // namespace farcall::cpu_device
