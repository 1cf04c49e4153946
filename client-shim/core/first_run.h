// SPDX-License-Identifier: Apache-2.0
// Kernels whose first launch has been sent to a CPU device and not been waited for. That device
// compiles a kernel at its first launch, so the next wait may take long; the line on the terminal
// (slow_step.h) names the cause.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client-shim/core/session/slow_step.h"

namespace farcall::client {

extern std::atomic<size_t> g_first_runs;  // how many there are

// A first launch is about to be sent.
//   `name`   of the kernel, as its module has it
//   Threads  any
void NoteFirstRun(const std::string& name);

// "the CPU device compiles and runs NAME for the first time", or how many kernels it does so with.
//   `names`  at least one; mangled ones are shown without their parameters
std::string FirstRunLine(const std::vector<std::string>& names);

// As long as it lives, the program waits for the device; afterwards the launches before it are
// over.
class FirstRunWait {
 public:
  FirstRunWait() {
    if (g_first_runs.load(std::memory_order_relaxed) != 0) [[unlikely]]
      Begin();
  }
  ~FirstRunWait() {
    if (step_.has_value()) [[unlikely]]
      End();
  }
  FirstRunWait(const FirstRunWait&) = delete;
  FirstRunWait& operator=(const FirstRunWait&) = delete;

 private:
  void Begin();
  void End();
  std::optional<SlowStep> step_;
  std::vector<std::string> names_;
};

}  // namespace farcall::client
