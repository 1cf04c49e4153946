// SPDX-License-Identifier: Apache-2.0
// What the parts of the swap scheduler share.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "quota/compute_quota.h"

namespace farcall::server {

inline constexpr double kLastPart = 0.3;  // of a new measurement

inline uint64_t SumOf(const std::vector<uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

inline uint64_t Less(uint64_t from, uint64_t what) {
  return from > what ? from - what : 0;
}

}  // namespace farcall::server
