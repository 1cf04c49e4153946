// SPDX-License-Identifier: Apache-2.0
// What a session may have outstanding, and spend, under a lease.
#include "quota/scheduling/work_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

using Verdict = WorkWindow::Verdict;

// A window that knows what key 1 costs.
void Teach(WorkWindow& window, uint64_t key, Ns cost) {
  window.Grant(kSecond);
  ASSERT_EQ(window.Admit(key), Verdict::kPass);
  EXPECT_TRUE(window.Submit(key)) << "the unknown goes alone";
  window.Complete(window.CloseBatch(), cost);
  window.End();
}

TEST(WorkWindow, LetsNothingThroughWithoutALease) {
  WorkWindow window;
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForLease);
  window.Grant(kMillisecond);
  EXPECT_EQ(window.Admit(1), Verdict::kPass);
  window.End();
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForLease);
}

TEST(WorkWindow, HoldsWhatExceedsTheWindow) {
  WorkWindow window;
  Teach(window, 1, 1500 * kMicrosecond);
  window.Grant(kSecond);
  EXPECT_FALSE(window.Submit(1));
  EXPECT_TRUE(window.Submit(1)) << "two make a batch";
  uint64_t first = window.CloseBatch();
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForRoom);
  window.Complete(first, 3 * kMillisecond);
  EXPECT_EQ(window.Admit(1), Verdict::kPass);
}

TEST(WorkWindow, LetsOnePieceLargerThanTheWindowThrough) {
  WorkWindow window;
  Teach(window, 1, 50 * kMillisecond);
  window.Grant(4 * kMillisecond);
  EXPECT_EQ(window.Admit(1), Verdict::kPass);
  EXPECT_TRUE(window.Submit(1));
  window.CloseBatch();
  EXPECT_TRUE(window.spent());
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForLease);
}

// Or the device would pause between two long pieces.
TEST(WorkWindow, LetsOneMoreLongPieceWaitWhereNobodyElseDoes) {
  WorkWindow window;
  Teach(window, 1, 3 * kMillisecond);
  window.Grant(kSecond);
  EXPECT_TRUE(window.Submit(1));
  window.CloseBatch();
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForRoom);
  window.SetCompany(Company::kIdle);
  EXPECT_EQ(window.Admit(1), Verdict::kPass);
  window.Submit(1);
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForRoom) << "two, no more";
  window.CloseBatch();
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForRoom);
}

// Each batch costs somebody who watches it; where nobody is there to be kept waiting, few do.
TEST(WorkWindow, WatchesLargerBatchesWhereNobodyElseIs) {
  WorkWindow window;
  Teach(window, 1, 3 * kMillisecond);
  window.Grant(kSecond);
  window.SetCompany(Company::kNone);
  EXPECT_FALSE(window.Submit(1));
  EXPECT_FALSE(window.Submit(1));
  EXPECT_TRUE(window.Submit(1)) << "9 ms";
  window.CloseBatch();
  EXPECT_EQ(window.Admit(1), Verdict::kPass);
  window.SetCompany(Company::kWaiting);
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForRoom);
}

TEST(WorkWindow, CountsWhatWasMeasured) {
  WorkWindow window;
  Teach(window, 1, kMillisecond);
  window.Grant(3 * kMillisecond);
  window.Submit(1);
  window.Complete(window.CloseBatch(), 5 * kMillisecond);
  EXPECT_TRUE(window.spent()) << "it took more than was expected";
  EXPECT_TRUE(window.drained());
}

TEST(WorkWindow, StopsWhenToldTo) {
  WorkWindow window;
  Teach(window, 1, 100 * kMicrosecond);
  window.Grant(kSecond);
  window.Submit(1);
  window.Limit(0);
  EXPECT_EQ(window.Admit(1), Verdict::kWaitsForLease);
  EXPECT_FALSE(window.drained());
  window.Complete(window.CloseBatch(), 100 * kMicrosecond);
  EXPECT_TRUE(window.drained());
}

TEST(WorkWindow, ClosesABatchOfManySmallLaunches) {
  WorkWindow window;
  Teach(window, 1, 100);
  window.Grant(kSecond);
  int launches = 1;
  while (!window.Submit(1)) ++launches;
  EXPECT_EQ(launches, 256);
}

TEST(WorkWindow, IgnoresABatchItDoesNotKnow) {
  WorkWindow window;
  EXPECT_EQ(window.CloseBatch(), 0u);
  window.Complete(0, kSecond);
  window.Complete(99, kSecond);
  EXPECT_EQ(window.outstanding_ns(), 0);
}

// Whatever comes: outstanding stays within the window or one batch's last piece; a lease is
// exceeded by its outstanding only; what is done leaves nothing behind.
RC_GTEST_PROP(WorkWindow, BoundsWhatIsOutstanding, ()) {
  auto costs = *rc::gen::nonEmpty(rc::gen::resize(
      6, rc::gen::container<std::vector<Ns>>(rc::gen::inRange<Ns>(1000, 20 * kMillisecond))));
  auto steps = *rc::gen::inRange(1, 200);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const WindowOptions options;
  WorkWindow window(options);
  for (size_t key = 0; key < costs.size(); ++key) Teach(window, key, costs[key]);
  Ns longest = *std::max_element(costs.begin(), costs.end());
  std::deque<std::pair<uint64_t, Ns>> closed;
  Ns open = 0, spent = 0, budget = 0;
  auto close = [&] {
    if (uint64_t number = window.CloseBatch()) closed.emplace_back(number, std::exchange(open, 0));
  };
  for (int step = 0; step < steps; ++step) {
    uint64_t key = random() % costs.size();
    if (!window.has_lease()) {
      budget = kMillisecond + static_cast<Ns>(random() % 10000000);
      spent = 0;
      window.Grant(budget);
    }
    Verdict verdict = window.Admit(key);
    if (verdict == Verdict::kPass) {
      open += costs[key];
      spent += costs[key];
      if (window.Submit(key)) close();
      RC_ASSERT(window.outstanding_ns() <= std::max(options.window_ns, longest) + longest);
      RC_ASSERT(spent <= budget + longest);
      continue;
    }
    close();
    RC_ASSERT(!closed.empty() || verdict == Verdict::kWaitsForLease);
    if (!closed.empty()) {
      window.Complete(closed.front().first, closed.front().second);
      closed.pop_front();
    }
    if (window.drained() && verdict == Verdict::kWaitsForLease) {
      RC_ASSERT(window.outstanding_ns() == 0);
      window.End();
    }
  }
}

}  // namespace
}  // namespace farcall::quota
