// SPDX-License-Identifier: Apache-2.0
#include "quota/network/net_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace farcall::quota {
namespace {

TEST(NetBudget, LendsPiecesAtItsRate) {
  NetBudget budget(100'000'000, 0);
  EXPECT_EQ(budget.piece_bytes(), 1'000'000u);
  EXPECT_EQ(budget.Lend(0), 0u);
  EXPECT_EQ(budget.Until(0), 10 * kMillisecond);
  EXPECT_EQ(budget.Lend(10 * kMillisecond), 1'000'000u);
  EXPECT_EQ(budget.Lend(10 * kMillisecond), 0u);
  EXPECT_EQ(budget.Lend(15 * kMillisecond), 0u);
  EXPECT_EQ(budget.Until(15 * kMillisecond), 5 * kMillisecond);
}

TEST(NetBudget, SavesNoMoreThanABurst) {
  NetBudget budget(100'000'000, 0);
  uint64_t lent = 0;
  while (uint64_t piece = budget.Lend(3600 * kSecond)) lent += piece;
  EXPECT_EQ(lent, budget.burst_bytes());
}

TEST(NetBudget, NeverLendsMoreThanRateAndBurst) {
  std::mt19937_64 random(20261122);
  for (int run = 0; run < 500; ++run) {
    uint64_t rate = 100'000 + random() % 1'000'000'000;
    NetBudget budget(rate, 0);
    struct Loan {
      Ns at;
      uint64_t bytes;
    };
    std::vector<Loan> loans;
    Ns now = 0;
    for (int step = 0; step < 100; ++step) {
      now += static_cast<Ns>(random() % (50 * kMillisecond));
      while (uint64_t piece = budget.Lend(now)) loans.push_back({now, piece});
      if (random() % 2 == 0) now += budget.Until(now);
    }
    // Of all windows that end with a loan, the one that lent most beyond the rate.
    double beyond = 0;
    for (size_t i = 0; i < loans.size(); ++i) {
      if (i != 0) {
        double passed = static_cast<double>(loans[i].at - loans[i - 1].at) / kSecond;
        beyond = std::max(beyond - static_cast<double>(rate) * passed, 0.0);
      }
      beyond += static_cast<double>(loans[i].bytes);
      ASSERT_LE(beyond, static_cast<double>(budget.burst_bytes()) + 1);
    }
  }
}

TEST(NetBudget, GivesAllOfItsRateToWhoAsksInTime) {
  for (uint64_t rate : {100'000u, 1'000'000u, 123'456'789u}) {
    NetBudget budget(rate, 0);
    uint64_t lent = 0;
    Ns now = 0;
    while (now < 60 * kSecond) {
      now += budget.Until(now);
      lent += budget.Lend(now);
    }
    double got = static_cast<double>(lent) / 60 / static_cast<double>(rate);
    EXPECT_NEAR(got, 1.0, 0.01) << rate;
  }
}

TEST(NetBudget, ANewRateKeepsWhatWasSavedWithinItsBurst) {
  NetBudget budget(100'000'000, 0);
  budget.SetRate(1'000'000, kSecond);
  uint64_t lent = 0;
  while (uint64_t piece = budget.Lend(kSecond)) lent += piece;
  EXPECT_LE(lent, budget.burst_bytes());
  EXPECT_GT(lent, 0u);
}

}  // namespace
}  // namespace farcall::quota
