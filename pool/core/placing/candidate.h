// SPDX-License-Identifier: Apache-2.0
// A GPU on which a claim fits.
#pragma once

#include <cstdint>

namespace farcall::pool {

struct Candidate {
  bool is_empty = false;
  double left = 0;
  uint32_t device = 0;
};

}  // namespace farcall::pool
