// SPDX-License-Identifier: Apache-2.0
// When claims are expected to start.
#include "pool/core/forecast.h"

#include <gtest/gtest.h>

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolForecast : public PoolCore {
 protected:
  void Request(const std::string& id, uint64_t gib, Ms lifetime) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.lifetime_ms = lifetime;
    Do(request);
  }
  StartEstimate Of(const std::string& id) { return EstimateStart(PoolCopy(core_, now_, 1000), id); }
};

TEST_F(PoolForecast, AClaimStartsWhenTheLifetimeOfAnotherIsOver) {
  Request("runs", 12, 600'000);
  Beat(), Beat(1);
  Request("waits", 12, 900'000);
  Request("last", 12, 0);
  const StartEstimate waits = Of("waits");
  ASSERT_TRUE(waits.starts_in);
  EXPECT_EQ(*waits.starts_in, 600'000);
  EXPECT_EQ(*waits.earliest, 300'000);
  EXPECT_EQ(*waits.latest, 600'000);
  EXPECT_FALSE(waits.is_cut_short);
  // It waits for the end of the one before it, whose lifetime counts from its request.
  EXPECT_EQ(*Of("last").starts_in, 900'000);
}

TEST_F(PoolForecast, WhatFitsBesideStartsAtOnceAndWhatNeverFitsNever) {
  Request("runs", 12, 600'000);
  Beat(), Beat(1);
  PoolCopy copy(core_, now_, 1000);
  Ask small, large;
  small.memory_bytes = 2 * kGiB;
  copy.Add(small, 0);
  EXPECT_EQ(*EstimateStart(copy, "plan").starts_in, 0);
  PoolCopy other(core_, now_, 1000);
  large.memory_bytes = 20 * kGiB;
  other.Add(large, 0);
  EXPECT_FALSE(EstimateStart(other, "plan").starts_in);
}

TEST_F(PoolForecast, AGangStartsWhenThereIsRoomForAllOfIt) {
  Beat(0, "other");
  Request("runs", 0, 600'000);
  for (int i = 0; i < 2; ++i) Beat(1), Beat(1, "other");
  PoolCopy copy(core_, now_, 1000);
  copy.Add({}, 2);
  EXPECT_EQ(*EstimateStart(copy, "plan").starts_in, 600'000);
}

TEST_F(PoolForecast, SaysThatItWasCutShort) {
  Request("runs", 12, 600'000);
  Beat(), Beat(1);
  Request("waits", 12, 0);
  const Forecast none =
      PoolCopy(core_, now_, 1000).Foresee(1, std::chrono::steady_clock::time_point::min());
  EXPECT_TRUE(none.is_cut_short);
  EXPECT_TRUE(none.claims.empty());
}

}  // namespace
}  // namespace farcall::pool
