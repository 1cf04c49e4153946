// SPDX-License-Identifier: Apache-2.0
// What was to be reached, and what was: the table of docs/internals/sharing.md, from the simulated
// figures.
#pragma once

#include <string>
#include <vector>

#include "bench/sharing/experiments.h"

namespace farcall::sharing {

struct Goal {
  std::string what, goal, reached;
  bool is_met = false;
};

// Of a whole run (scale 1): shorter ones do not reach all of them.
std::vector<Goal> JudgeGoals(const std::vector<Figure>& figures);
void PrintGoals(const std::vector<Goal>& goals);

}  // namespace farcall::sharing
