// SPDX-License-Identifier: Apache-2.0
// How long a wait spins, and when not.
#include "transport/spin.h"

#include <gtest/gtest.h>

#include <vector>

namespace farcall {
namespace {

using Ns = SpinPolicy::Ns;
constexpr Ns kMax{50'000};

TEST(SpinPolicy, TheFirstWaitSpinsForAsLongAsAnyMay) {
  SpinPolicy spin(kMax);
  EXPECT_EQ(spin.Budget(), kMax);
}

TEST(SpinPolicy, FollowsWaitsThatStayTheSame) {
  SpinPolicy spin(kMax);
  for (int i = 0; i < 100; ++i) {
    spin.Found(Ns(8000));
    EXPECT_GE(spin.Budget(), Ns(8000) + SpinPolicy::kSlack);
  }
  EXPECT_LT(spin.Budget(), Ns(8100) + SpinPolicy::kSlack);
  for (int i = 0; i < 100; ++i) spin.Found(Ns(24'000));
  EXPECT_GT(spin.Budget(), Ns(23'900) + SpinPolicy::kSlack);
  EXPECT_LT(spin.Budget(), Ns(24'100) + SpinPolicy::kSlack);
}

TEST(SpinPolicy, AllowsForHowFarWaitsStray) {
  SpinPolicy spin(kMax);
  for (int i = 0; i < 100; ++i) spin.Found(Ns(i % 2 == 0 ? 6000 : 20'000));
  EXPECT_GT(spin.Budget(), Ns(20'000));
}

TEST(SpinPolicy, SpinsLongerAfterASpinInVain) {
  SpinPolicy spin(kMax);
  for (int i = 0; i < 100; ++i) spin.Found(Ns(8000));
  spin.Missed();
  EXPECT_GT(spin.Budget(), Ns(40'000));
}

TEST(SpinPolicy, NeverSpinsLongerThanItMay) {
  SpinPolicy spin(kMax);
  for (int i = 0; i < 100; ++i) {
    spin.Found(Ns(i % 3 == 0 ? 1'000'000'000 : 45'000));
    EXPECT_LE(spin.Budget(), kMax);
  }
  SpinPolicy none(Ns::zero());
  EXPECT_EQ(none.Budget(), Ns::zero());
  none.Found(Ns(0));
  EXPECT_EQ(none.Budget(), Ns::zero());
}

// Which of `waits` waits spin, none of them with success.
std::vector<int> SpinsInVain(SpinPolicy& spin, int waits) {
  std::vector<int> which;
  for (int i = 0; i < waits; ++i) {
    if (spin.Budget() != Ns::zero()) {
      which.push_back(i);
      spin.Missed();
    }
  }
  return which;
}

TEST(SpinPolicy, SpinsSeldomerEachTimeWhereItNeverPays) {
  SpinPolicy spin(kMax);
  EXPECT_EQ(SpinsInVain(spin, 500), (std::vector<int>{0, 1, 2, 3, 19, 51, 115, 243, 371, 499}));
}

TEST(SpinPolicy, SpinsAgainOnceOneFound) {
  SpinPolicy spin(kMax);
  SpinsInVain(spin, 500);
  spin.Found(Ns(9000));
  EXPECT_GT(spin.Budget(), Ns(9000));
  EXPECT_EQ(SpinsInVain(spin, 24), (std::vector<int>{0, 1, 2, 3, 19})) << "as at first";
}

TEST(Spin, LooksUntilItFinds) {
  SpinPolicy policy(std::chrono::hours(1));
  int looks = 0;
  EXPECT_TRUE(Spin(policy, [&] { return ++looks == 5; }));
  EXPECT_EQ(looks, 5);
}

TEST(Spin, LooksNotAtAllWithoutABudget) {
  SpinPolicy policy(Ns::zero());
  EXPECT_FALSE(Spin(policy, [] { return true; }));
}

TEST(Spin, TellsThePolicyHowItWent) {
  SpinPolicy policy(Ns(1));
  std::vector<int> which;
  for (int i = 0; i < 20; ++i) {
    Spin(policy, [&] {
      if (which.empty() || which.back() != i) which.push_back(i);
      return i == 19;
    });
  }
  EXPECT_EQ(which, (std::vector<int>{0, 1, 2, 3, 19}));
  EXPECT_NE(policy.Budget(), Ns::zero()) << "the last one found";
}

}  // namespace
}  // namespace farcall
