// SPDX-License-Identifier: Apache-2.0
// Requests against the server's policy.
#include "quota/compute_quota.h"

#include <gtest/gtest.h>

namespace farcall::quota {
namespace {

TEST(ComputeQuota, GivesWhatIsAskedAndAllowed) {
  Result<ComputeQuota> quota = Grant(250, 500, Priority::kHigh, {}, 1000);
  ASSERT_TRUE(quota.ok());
  EXPECT_EQ(*quota, (ComputeQuota{250, 500, Priority::kHigh}));
}

TEST(ComputeQuota, CapsThoseWhoAskForNothingAtThePolicy) {
  ComputePolicy policy{.max_share_milli = 300, .max_limit_milli = 600};
  Result<ComputeQuota> quota = Grant(0, 0, Priority::kNormal, policy, 1000);
  ASSERT_TRUE(quota.ok());
  EXPECT_EQ(quota->limit_milli, 600u);
  EXPECT_EQ(quota->share_milli, 0u);
}

TEST(ComputeQuota, RefusesWithWhatWouldBeRight) {
  ComputePolicy policy{
      .max_share_milli = 300, .max_limit_milli = 600, .max_priority = Priority::kNormal};
  auto refusal = [&](uint32_t share, uint32_t limit, Priority priority, uint32_t left) {
    Result<ComputeQuota> quota = Grant(share, limit, priority, policy, left);
    return quota.ok() ? "granted" : quota.status().message();
  };
  EXPECT_EQ(refusal(1001, 0, Priority::kNormal, 1000), "share: asked 100.1%, a device has 100%");
  EXPECT_EQ(refusal(0, 4000, Priority::kNormal, 1000), "limit: asked 400%, a device has 100%");
  EXPECT_EQ(refusal(400, 0, Priority::kNormal, 1000), "share: asked 40%, at most 30% here");
  EXPECT_EQ(refusal(0, 700, Priority::kNormal, 1000), "limit: asked 70%, at most 60% here");
  EXPECT_EQ(refusal(0, 0, Priority::kHigh, 1000), "priority: asked high, at most normal here");
  EXPECT_EQ(refusal(250, 0, Priority::kNormal, 125),
            "share: asked 25%, 12.5% of the device is left");
  EXPECT_EQ(refusal(200, 100, Priority::kNormal, 1000), "share: asked 20%, above the limit of 10%");
}

}  // namespace
}  // namespace farcall::quota
