// SPDX-License-Identifier: Apache-2.0
// What the machine itself gives in this run: the limit each of our figures stands beside.
#pragma once

#include <cstddef>
#include <string>

#include "proto/status.h"

namespace farcall::bench {

// How a side waits for bytes: spins this long on the socket, then blocks. The product's own policy
// is measured with the same value.
struct WaitPolicy {
  unsigned spin_us = 50;
};

struct RawFigures {
  double rtt_us = 0;       // 64-byte ping-pong over loopback TCP, median
  double stream_GBps = 0;  // 64 MiB over `lanes` loopback TCP connections at once, median
  double memcpy_GBps = 0;  // 64 MiB memcpy, median
  unsigned lanes = 0;
  std::string congestion;  // the TCP congestion control both used
};

// Measures against a child process on this host's loopback.
//   Errors  kUnavailable (no socket, no child)
Result<RawFigures> MeasureRaw(const WaitPolicy& policy, unsigned lanes);

}  // namespace farcall::bench
