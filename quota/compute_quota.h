// SPDX-License-Identifier: Apache-2.0
// What a vGPU may use of a device's time: its share, its limit, its priority; and how a request
// becomes that under the server's policy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/status.h"
#include "settings/milli.h"

namespace farcall::quota {

using Ns = int64_t;  // GPU time and clock alike
inline constexpr Ns kMicrosecond = 1000;
inline constexpr Ns kMillisecond = 1000 * kMicrosecond;
inline constexpr Ns kSecond = 1000 * kMillisecond;

enum class Priority : uint8_t { kLow = 0, kNormal = 1, kHigh = 2 };
inline constexpr int kPriorities = 3;
std::string_view ToText(Priority priority);

struct ComputeQuota {
  uint32_t share_milli = 0;            // guaranteed when wanted, lent when not; 0: none
  uint32_t limit_milli = kWholeMilli;  // never more than this; 1000: no cap
  Priority priority = Priority::kNormal;
  bool operator==(const ComputeQuota&) const = default;
};

// The server's: what a client may ask for. What it does not ask for it gets by default.
struct ComputePolicy {
  uint32_t max_share_milli = kWholeMilli;
  uint32_t max_limit_milli = kWholeMilli;
  Priority max_priority = Priority::kHigh;
  bool operator==(const ComputePolicy&) const = default;
};

// The quota a request becomes. 0 of a request's numbers: not asked.
//   share_left_milli  of the device, not promised to others yet
//   Errors  kInvalid (over 100 %, share above limit), kRefused (above the policy or what is left);
//           one line: asked, what would be right
Result<ComputeQuota> Grant(uint32_t share_milli, uint32_t limit_milli, Priority priority,
                           const ComputePolicy& policy, uint32_t share_left_milli);

// "12.5%".
std::string PercentText(uint32_t milli);

}  // namespace farcall::quota
