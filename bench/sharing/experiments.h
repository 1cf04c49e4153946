// SPDX-License-Identifier: Apache-2.0
// The simulated half of docs/internals/sharing.md: each row a named trial, what was wanted and what
// came.
#pragma once

#include <string>
#include <vector>

#include "quota/compute_quota.h"

namespace farcall::sharing {

struct Figure {
  std::string group, trial, policy, name;
  double value = 0;
  std::string unit;
};

// `scale`: lengths of the trials over their usual ones (a minute and more of simulated time each).
std::vector<Figure> MeasureShares(double scale);
std::vector<Figure> MeasureAlone(double scale);
std::vector<Figure> MeasureCaps(double scale);
std::vector<Figure> MeasurePriority(double scale);
std::vector<Figure> MeasureMix(double scale);
std::vector<Figure> MeasureSwap(double scale);

}  // namespace farcall::sharing
