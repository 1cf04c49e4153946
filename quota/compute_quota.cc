// SPDX-License-Identifier: Apache-2.0
#include "quota/compute_quota.h"

#include <algorithm>

#include "quota/vgpu_status.h"

namespace farcall::quota {

std::string_view ToText(Priority priority) {
  switch (priority) {
    case Priority::kLow:
      return "low";
    case Priority::kNormal:
      return "normal";
    case Priority::kHigh:
      return "high";
  }
  return "unknown";
}

std::string_view ToText(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return "none";
    case WaitReason::kCap:
      return "cap";
    case WaitReason::kFair:
      return "fair";
    case WaitReason::kPriority:
      return "priority";
    case WaitReason::kSwap:
      return "swap";
  }
  return "unknown";
}

std::string PercentText(uint32_t milli) {
  std::string text = std::to_string(milli / 10);
  if (milli % 10 != 0) {
    text += '.';
    text += std::to_string(milli % 10);
  }
  return text += '%';
}

Result<ComputeQuota> Grant(uint32_t share_milli, uint32_t limit_milli, Priority priority,
                           const ComputePolicy& policy, uint32_t share_left_milli) {
  for (auto [name, asked] : {std::pair("share", share_milli), std::pair("limit", limit_milli)}) {
    if (asked > kWholeMilli) {
      return Status(Code::kInvalid,
                    std::string(name) + ": asked " + PercentText(asked) + ", a device has 100%");
    }
  }
  if (share_milli > policy.max_share_milli) {
    return Status(Code::kRefused, "share: asked " + PercentText(share_milli) + ", at most " +
                                      PercentText(policy.max_share_milli) + " here");
  }
  if (limit_milli > policy.max_limit_milli) {
    return Status(Code::kRefused, "limit: asked " + PercentText(limit_milli) + ", at most " +
                                      PercentText(policy.max_limit_milli) + " here");
  }
  if (priority > policy.max_priority) {
    return Status(Code::kRefused, "priority: asked " + std::string(ToText(priority)) +
                                      ", at most " + std::string(ToText(policy.max_priority)) +
                                      " here");
  }
  if (share_milli > share_left_milli) {
    return Status(Code::kRefused, "share: asked " + PercentText(share_milli) + ", " +
                                      PercentText(share_left_milli) + " of the device is left");
  }
  ComputeQuota quota;
  quota.share_milli = share_milli;
  quota.limit_milli = limit_milli == 0 ? policy.max_limit_milli : limit_milli;
  quota.priority = priority;
  if (quota.share_milli > quota.limit_milli) {
    return Status(Code::kInvalid, "share: asked " + PercentText(quota.share_milli) +
                                      ", above the limit of " + PercentText(quota.limit_milli));
  }
  return quota;
}

}  // namespace farcall::quota
