// SPDX-License-Identifier: Apache-2.0
// Our figures, taken through a libcuda.so.1 as an application would see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::bench {

struct CopyFigure {
  uint64_t bytes = 0;
  double h2d_GBps = 0;  // pageable memory, synchronous copy, median
  double d2h_GBps = 0;
  double h2d_cpu_s_per_GiB = 0;  // processor time of this process, all threads
  double d2h_cpu_s_per_GiB = 0;
};

struct DriverFigures {
  double launch_ns =
      0;  // CPU time of the calling thread a launch of an empty kernel, in bursts of 1,000, median
  double launch_wall_ns = 0;  // the same bursts by the clock
  double launches_per_s = 0;  // 200,000 launches and one synchronisation, by the clock
  double sync_us = 0;         // cuStreamSynchronize of an idle stream, median
  double start_ms = 0;        // cuInit to the first kernel's completion
  std::vector<CopyFigure> copies;
};

// Loads `library` (a path or soname) into this process and measures on device 0.
//   Errors  kUnavailable, with the function and its code
Result<DriverFigures> MeasureDriver(const std::string& library);
// The path to a device: what a wait costs, and what a copy of pageable memory gets.
struct PathFigures {
  double round_trip_us = 0;   // a wait for an idle stream, median
  double up_bytes_per_s = 0;  // median of copies of `copied_bytes`
  double down_bytes_per_s = 0;
  uint64_t copied_bytes = 0;  // 1 to 64 MiB: less where a copy takes long
};
// Loads `library` likewise and measures on device 0; takes a few seconds at most on a link of 100
// Mbit/s.
//   Errors  as MeasureDriver's
Result<PathFigures> MeasurePath(const std::string& library);
// Only the start: milliseconds from cuInit to the first kernel's completion.
Result<double> MeasureStartOnly(const std::string& library);

}  // namespace farcall::bench
