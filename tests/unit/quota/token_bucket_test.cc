// SPDX-License-Identifier: Apache-2.0
// The cap: what may be used in any window, and that debt is repaid.
#include "quota/network/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

TEST(TokenBucket, StartsFullAndRefillsAtItsRate) {
  TokenBucket bucket(300, 0);
  EXPECT_EQ(bucket.Tokens(0), 30 * kMillisecond);
  bucket.Charge(30 * kMillisecond, 0);
  EXPECT_EQ(bucket.Tokens(10 * kMillisecond), 3 * kMillisecond);
  EXPECT_EQ(bucket.Tokens(kSecond), 30 * kMillisecond) << "no more than its burst";
}

TEST(TokenBucket, KeepsDebtUntilItIsRepaid) {
  TokenBucket bucket(100, 0);
  bucket.Charge(210 * kMillisecond, 0);
  EXPECT_EQ(bucket.Tokens(0), -200 * kMillisecond);
  EXPECT_EQ(bucket.Until(0, 0), 2 * kSecond);
  EXPECT_LT(bucket.Tokens(2 * kSecond - 20), 0);
  EXPECT_GE(bucket.Tokens(2 * kSecond + 20), 0);
}

TEST(TokenBucket, LosesNothingToSmallSteps) {
  TokenBucket bucket(333, 0);
  bucket.Charge(TokenBucket::DefaultBurst(333), 0);
  for (Ns now = 1; now <= 10000; ++now) bucket.Tokens(now);
  EXPECT_EQ(bucket.Tokens(10000), 3330);
}

TEST(TokenBucket, OwesStillAfterItsRateChanged) {
  TokenBucket bucket(500, 0);
  bucket.Charge(130 * kMillisecond, 0);
  bucket.SetRate(1000, 0);
  EXPECT_EQ(bucket.Tokens(0), -100 * kMillisecond);
  EXPECT_EQ(bucket.Until(0, 0), 100 * kMillisecond);
}

TEST(TokenBucket, NeverOverflowsOverYears) {
  TokenBucket bucket(1000, 0);
  EXPECT_EQ(bucket.Tokens(INT64_MAX), 30 * kMillisecond);
}

// Whoever begins a piece only with tokens: in every window, rate * T + burst + the longest piece.
RC_GTEST_PROP(TokenBucket, BoundsUseInEveryWindow, ()) {
  auto rate = *rc::gen::inRange<uint32_t>(10, 1000);
  auto longest = *rc::gen::inRange<Ns>(1000, 50 * kMillisecond);
  auto pieces = *rc::gen::container<std::vector<Ns>>(rc::gen::inRange<Ns>(1, longest + 1));
  auto pauses = *rc::gen::container<std::vector<Ns>>(pieces.size(),
                                                     rc::gen::inRange<Ns>(0, 40 * kMillisecond));
  TokenBucket bucket(rate, 0);
  Ns now = 0, used = 0, lowest = 0;  // of used - rate * t, in thousandths
  for (size_t i = 0; i < pieces.size(); ++i) {
    now += pauses[i];
    if (bucket.Tokens(now) <= 0) {
      Ns wait = bucket.Until(1, now);
      RC_ASSERT(wait > 0);
      now += wait;
      RC_ASSERT(bucket.Tokens(now) > 0);
    }
    lowest = std::min(lowest, used * kWholeMilli - now * rate);
    bucket.Charge(pieces[i], now);
    used += pieces[i];
    now += pieces[i];
    Ns over = used * kWholeMilli - now * rate - lowest;
    RC_ASSERT(over <= (bucket.burst_ns() + longest) * kWholeMilli);
  }
}

}  // namespace
}  // namespace farcall::quota
