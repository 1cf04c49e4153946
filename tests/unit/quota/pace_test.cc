// SPDX-License-Identifier: Apache-2.0
// Device time and the clock.
#include "quota/scheduling/pace.h"

#include <gtest/gtest.h>

namespace farcall::quota {
namespace {

TEST(Pace, IsTheClocksUntilItIsKnown) {
  EXPECT_EQ(Pace().milli(), 1000u);
  EXPECT_EQ(Pace().ByTheClock(kMillisecond), kMillisecond);
}

TEST(Pace, FollowsWhatWasMeasured) {
  Pace pace;
  for (int i = 0; i < 50; ++i) pace.Note(3 * kMillisecond, 2 * kMillisecond);
  EXPECT_EQ(pace.ByTheClock(4 * kMillisecond), 6 * kMillisecond);
  for (int i = 0; i < 50; ++i) pace.Note(2 * kMillisecond, 2 * kMillisecond);
  EXPECT_NEAR(pace.milli(), 1000, 10);
}

TEST(Pace, StaysWithinBounds) {
  Pace pace;
  pace.Note(kSecond, 0);
  EXPECT_EQ(pace.milli(), 1000u) << "nothing was charged";
  pace.Note(kSecond, 1);
  EXPECT_EQ(pace.milli(), Pace::kMaxMilli);
  Pace faster;
  faster.Note(1, kSecond);
  EXPECT_EQ(faster.milli(), Pace::kLeastMilli);
  faster.Note(-kSecond, -kSecond);
  EXPECT_EQ(faster.milli(), Pace::kLeastMilli);
}

}  // namespace
}  // namespace farcall::quota
