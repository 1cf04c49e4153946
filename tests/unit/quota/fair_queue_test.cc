// SPDX-License-Identifier: Apache-2.0
// Start-time fair queuing: the bound between any two, and what arrivals and pauses are owed.
#include "quota/scheduling/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

FairQueue::Flow NextOf(FairQueue& queue) {
  FairQueue::Flow flow = 0;
  EXPECT_TRUE(queue.Least([](FairQueue::Flow) { return true; }, &flow));
  queue.Begin(flow);
  return flow;
}

TEST(FairQueue, TakesTurnsByWeight) {
  FairQueue queue;
  queue.Add(1, 0.25);
  queue.Add(2, 0.75);
  queue.Arrive(1);
  queue.Arrive(2);
  int turns[3] = {};
  for (int i = 0; i < 400; ++i) {
    FairQueue::Flow flow = NextOf(queue);
    queue.Charge(flow, 1000);
    ++turns[flow];
  }
  EXPECT_NEAR(turns[1], 100, 1);
  EXPECT_NEAR(turns[2], 300, 1);
}

TEST(FairQueue, OwesNothingToOneWhoWasIdle) {
  FairQueue queue;
  queue.Add(1, 0.5);
  queue.Add(2, 0.5);
  queue.Arrive(1);
  for (int i = 0; i < 100; ++i) queue.Charge(NextOf(queue), 1000);
  queue.Arrive(2);
  int turns_of_two = 0;
  for (int i = 0; i < 100; ++i) {
    FairQueue::Flow flow = NextOf(queue);
    queue.Charge(flow, 1000);
    turns_of_two += flow == 2 ? 1 : 0;
  }
  EXPECT_NEAR(turns_of_two, 50, 1);
}

TEST(FairQueue, DoesNotPunishOneWhoWasAlone) {
  FairQueue queue;
  queue.Add(1, 0.5);
  queue.Arrive(1);
  queue.Charge(NextOf(queue), 1000000);
  queue.Charge(NextOf(queue), 1000);
  queue.Add(2, 0.5);
  queue.Arrive(2);
  int turns_of_one = 0;
  for (int i = 0; i < 100; ++i) {
    FairQueue::Flow flow = NextOf(queue);
    queue.Charge(flow, 1000);
    turns_of_one += flow == 1 ? 1 : 0;
  }
  EXPECT_NEAR(turns_of_one, 50, 2);
}

TEST(FairQueue, PassesOverThoseThatMayNotRun) {
  FairQueue queue;
  queue.Add(1, 1);
  queue.Add(2, 1);
  queue.Arrive(1);
  queue.Arrive(2);
  FairQueue::Flow flow = 0;
  ASSERT_TRUE(queue.Least([](FairQueue::Flow each) { return each == 2; }, &flow));
  EXPECT_EQ(flow, 2u);
  EXPECT_FALSE(queue.Least([](FairQueue::Flow) { return false; }, &flow));
}

// Any two flows with work all the time, in every interval:
// |busy_i / w_i - busy_j / w_j| <= l_i / w_i + l_j / w_j.
RC_GTEST_PROP(FairQueue, BoundsTheDifferenceOfAnyTwo, ()) {
  auto weights = *rc::gen::nonEmpty(
      rc::gen::resize(8, rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1000))));
  auto longest = *rc::gen::container<std::vector<Ns>>(weights.size(),
                                                      rc::gen::inRange<Ns>(1, 20 * kMillisecond));
  auto turns = *rc::gen::inRange(1, 300);
  auto seed = *rc::gen::arbitrary<uint32_t>();
  std::mt19937 random(seed);
  FairQueue queue;
  size_t flows = weights.size();
  for (size_t i = 0; i < flows; ++i) {
    queue.Add(i, weights[i] / 1000.0);
    queue.Arrive(i);
  }
  std::vector<double> got(flows);
  std::vector<double> least(flows * flows), most(flows * flows);
  for (int turn = 0; turn < turns; ++turn) {
    FairQueue::Flow flow = NextOf(queue);
    Ns cost = 1 + static_cast<Ns>(random() % static_cast<uint64_t>(longest[flow]));
    queue.Charge(flow, cost);
    got[flow] += static_cast<double>(cost) * 1000 / weights[flow];
    for (size_t i = 0; i < flows; ++i) {
      for (size_t j = 0; j < i; ++j) {
        double difference = got[i] - got[j];
        double& low = least[i * flows + j];
        double& high = most[i * flows + j];
        low = std::min(low, difference);
        high = std::max(high, difference);
        double bound = static_cast<double>(longest[i]) * 1000 / weights[i] +
                       static_cast<double>(longest[j]) * 1000 / weights[j];
        RC_ASSERT(high - low <= bound * (1 + 1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace farcall::quota
