// SPDX-License-Identifier: Apache-2.0
// The signals by which a pool's processes are asked to end.
#pragma once

#include <csignal>

namespace farcall::pool {

// SIGTERM and SIGINT.
inline sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// They wait to be taken, and a peer that is gone raises none.
//   Thread  the first, before others start: they inherit it
inline void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace farcall::pool
