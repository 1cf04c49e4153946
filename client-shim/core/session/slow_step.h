// SPDX-License-Identifier: Apache-2.0
// A line on the terminal for what the program waits for longer than a second: what it is, how much
// of it is done. Nothing where stderr is no terminal, and nothing is left when it is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace farcall::client {

// Of FARCALL_PROGRESS. Before the first step.
void SetProgress(bool is_wanted);

// Whether lines are shown: wanted, and stderr is a terminal that knows escape sequences.
bool ShowsProgress();

// "farcall: WHAT, 1.2 of 4.0 GiB, 8 s". Cheap where no lines are shown.
std::string SlowStepLine(const std::string& what, uint64_t total_bytes, uint64_t moved_bytes,
                         int64_t seconds);

// As long as it lives, the program waits for this.
class SlowStep {
 public:
  // `moved`: bytes of `total_bytes` so far; called on another thread until the step is over, and
  // not at all where no lines are shown. 0 bytes: the line has no size.
  explicit SlowStep(std::string what, uint64_t total_bytes = 0,
                    std::function<uint64_t()> moved = nullptr);
  ~SlowStep();
  SlowStep(const SlowStep&) = delete;
  SlowStep& operator=(const SlowStep&) = delete;

 private:
  struct Board;
  static Board* TheBoard();
  Board* board_ = nullptr;  // nullptr: it is not shown
  uint64_t id_ = 0;
};

}  // namespace farcall::client
