// SPDX-License-Identifier: Apache-2.0
// When workers take leases, and what a change of a running quota does, without a supervisor.
#include "server/supervisor/sharing/time_sharing.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace farcall::server {
namespace {

class TimeSharingTest : public testing::Test {
 protected:
  void Start(int worker, const std::string& vgpu, const QuotaRequest& request,
             bool takes_leases = true) {
    ASSERT_TRUE(time_.Join(vgpu, worker, request, {0}, 0).ok());
    time_.Begin(worker, vgpu, takes_leases);
  }

  std::map<int, int> engaged_;
  std::map<int, int> leases_;
  std::map<std::string, quota::Priority> priorities_;
  TimeSharing time_{1,
                    {},
                    {[this](int worker, const LeaseMessage& message) {
                       leases_[worker] += std::holds_alternative<control::Lease>(message) ? 1 : 0;
                     },
                     [this](int worker) { ++engaged_[worker]; },
                     [this](const std::string& vgpu, quota::Priority priority) {
                       priorities_[vgpu] = priority;
                     }}};
};

TEST_F(TimeSharingTest, NobodyTakesLeasesUntilAVgpuHasAShareALimitOrAClass) {
  Start(1, "a", {});
  EXPECT_FALSE(time_.engaged());
  EXPECT_TRUE(engaged_.empty());
  Start(2, "b", {.share_milli = 300});
  EXPECT_TRUE(time_.engaged());
  EXPECT_EQ(engaged_, (std::map<int, int>{{1, 1}, {2, 1}}));
  Start(3, "c", {});
  EXPECT_EQ(engaged_, (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}})) << "each is told once";
}

TEST_F(TimeSharingTest, ClientsOfMpsTakeNone) {
  Start(1, "a", {}, false);
  Start(2, "b", {.share_milli = 300});
  Start(3, "c", {}, false);
  EXPECT_EQ(engaged_, (std::map<int, int>{{2, 1}}));
  EXPECT_EQ(time_.Change("a", {.share_milli = 100}, 0).code(), Code::kRefused);
}

TEST_F(TimeSharingTest, AWorkersMessagesReachTheScheduler) {
  Start(1, "a", {.share_milli = 300});
  time_.OnMessage(1, control::WantLease{}, 0);
  EXPECT_EQ(leases_[1], 1);
}

TEST_F(TimeSharingTest, AChangeKeepsWhatItDoesNotName) {
  Start(1, "a", {.share_milli = 300, .limit_milli = 500});
  ASSERT_TRUE(time_.Change("a", {.priority = WirePriority::kHigh}, 0).ok());
  const quota::ComputeQuota quota = time_.Statuses(0)[0].quota;
  EXPECT_EQ(quota.share_milli, 300u);
  EXPECT_EQ(quota.limit_milli, 500u);
  EXPECT_EQ(quota.priority, quota::Priority::kHigh);
  EXPECT_EQ(priorities_.at("a"), quota::Priority::kHigh) << "swapping knows of it";
  EXPECT_EQ(time_.PriorityOf("a", 0), quota::Priority::kHigh);
  EXPECT_EQ(time_.PriorityOf("nobody", 0), quota::Priority::kNormal);
}

TEST_F(TimeSharingTest, AChangeMayBeginTheSharing) {
  Start(1, "a", {});
  ASSERT_TRUE(time_.Change("a", {.limit_milli = 500}, 0).ok());
  EXPECT_TRUE(time_.engaged());
  EXPECT_EQ(engaged_, (std::map<int, int>{{1, 1}}));
}

TEST_F(TimeSharingTest, WhoeverHasLeftIsToldNothing) {
  Start(1, "a", {});
  time_.Leave(1, 0);
  Start(2, "b", {.share_milli = 300});
  EXPECT_EQ(engaged_, (std::map<int, int>{{2, 1}}));
  EXPECT_EQ(time_.Change("a", {.share_milli = 100}, 0).code(), Code::kInvalid);
}

}  // namespace
}  // namespace farcall::server
