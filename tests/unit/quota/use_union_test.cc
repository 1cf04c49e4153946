// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/use_union.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace farcall::quota {
namespace {

TEST(UseUnion, CountsOnceWhatOverlaps) {
  UseUnion use;
  EXPECT_EQ(use.Add(10, 100), 10);  // 90 to 100
  EXPECT_EQ(use.Add(10, 100), 0);
  EXPECT_EQ(use.Add(10, 105), 5);  // 95 to 105
  EXPECT_EQ(use.Add(5, 120), 5);   // 115 to 120
  EXPECT_EQ(use.Add(50, 125), 50 - 15 - 5);
  EXPECT_EQ(use.kept(), 1u);
  EXPECT_EQ(use.Add(0, 130), 0);
  EXPECT_EQ(use.Add(-5, 130), 0);
}

TEST(UseUnion, OfOneAloneIsWhatItUsed) {
  UseUnion use;
  Ns sum = 0;
  for (Ns now = 10; now < 1000; now += 10) sum += use.Add(10, now);
  EXPECT_EQ(sum, 990);
}

// Against a line of ticks.
TEST(UseUnion, AgreesWithCounting) {
  std::mt19937 random(7);
  UseUnion use;
  std::vector<bool> ticks(20000);
  Ns now = 100;
  for (int i = 0; i < 5000; ++i) {
    now += random() % 4;
    const Ns used = random() % 40;
    Ns fresh = 0;
    for (Ns tick = now - used; tick < now; ++tick) {
      fresh += ticks[static_cast<size_t>(tick)] ? 0 : 1;
      ticks[static_cast<size_t>(tick)] = true;
    }
    ASSERT_EQ(use.Add(used, now), fresh) << i;
  }
}

// Of another process, which was told of at its end.
TEST(UseUnion, CountsOnceWhatRanBesideALongKernel) {
  constexpr Ns kEach = kSecond / 20;
  UseUnion use;
  for (Ns now = 2 * kEach; now <= 5 * kSecond; now += 2 * kEach)
    EXPECT_EQ(use.Add(kEach, now), kEach);
  EXPECT_EQ(use.Add(5 * kSecond, 5 * kSecond), 5 * kSecond / 2);
}

TEST(UseUnion, KeepsFew) {
  UseUnion use;
  for (Ns now = 0; now < 10 * 2 * Ns{UseUnion::kMaxKept}; now += 10) {
    EXPECT_EQ(use.Add(1, now), 1);
    EXPECT_LE(use.kept(), UseUnion::kMaxKept + 1);
  }
  EXPECT_EQ(use.Add(1, 2 * UseUnion::kKept), 1);
  EXPECT_EQ(use.kept(), 1u);
}

}  // namespace
}  // namespace farcall::quota
