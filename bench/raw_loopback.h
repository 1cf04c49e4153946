// SPDX-License-Identifier: Apache-2.0
// What the machine itself gives in this run: the limit each of our figures stands beside.
#pragma once

#include <cstddef>
#include <string>

#include "proto/status.h"

namespace farcall::bench {

// How raw is measured. Pings wait as the product does (transport/spin.h); streams block, as its
// lanes do.
struct RawOptions {
  unsigned spin_us = 50;  // the most that a wait spins
  unsigned lanes = 2;
  int peer_cpu = -1;  // the other end's processor; -1: any that this process may use
};

struct RawFigures {
  double rtt_us = 0;                // 64-byte ping-pong over loopback TCP, median
  double rtt_blocking_us = 0;       // the same without a spin
  double stream_GBps = 0;           // 64 MiB over `lanes` loopback TCP connections at once, median
  double memcpy_GBps = 0;           // 64 MiB memcpy, median
  double stream_cpu_s_per_GiB = 0;  // processor time of the sending process
  unsigned lanes = 0;
  std::string congestion;  // the TCP congestion control both used
};

// Measures against a child process on this host's loopback.
//   Errors  kUnavailable (no socket, no child)
Result<RawFigures> MeasureRaw(const RawOptions& options);

// Keeps the calling thread, and what it starts from now on, on one processor.
void PinToCpu(int cpu);
// User and system time of this process so far, in seconds.
double ProcessCpuSeconds();

}  // namespace farcall::bench
