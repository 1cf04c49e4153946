// SPDX-License-Identifier: Apache-2.0
// Who makes room.
#include "quota/memory/swap_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quota/memory/residency.h"
#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

constexpr uint64_t kRoom = uint64_t{1} << 40;
constexpr Ns kNow = 1000 * kSecond;

SwapCandidate Idle(uint64_t vgpu, Priority priority, uint64_t bytes, Ns idle_since) {
  SwapCandidate candidate;
  candidate.vgpu = vgpu;
  candidate.priority = priority;
  candidate.bytes = bytes;
  candidate.idle_since = idle_since;
  return candidate;
}

using Victims = std::vector<uint64_t>;

TEST(SwapPolicy, TakesTheLowestClassThenTheLongestIdle) {
  std::vector<SwapCandidate> all = {Idle(1, Priority::kNormal, 100, 10),
                                    Idle(2, Priority::kLow, 100, 500),
                                    Idle(3, Priority::kLow, 100, 200)};
  EXPECT_EQ(ChooseVictims(all, 100, Priority::kHigh, kRoom, kNow), Victims{3});
  EXPECT_EQ(ChooseVictims(all, 150, Priority::kHigh, kRoom, kNow), (Victims{3, 2}));
  EXPECT_EQ(ChooseVictims(all, 300, Priority::kHigh, kRoom, kNow), (Victims{3, 2, 1}));
  EXPECT_EQ(ChooseVictims(all, 301, Priority::kHigh, kRoom, kNow), Victims{}) << "all or none";
}

TEST(SwapPolicy, SparesHigherClassesPinnedOnesAndNewcomers) {
  SwapCandidate pinned = Idle(1, Priority::kLow, 100, 0);
  pinned.is_pinned = true;
  SwapCandidate newcomer = Idle(2, Priority::kLow, 100, 0);
  newcomer.switch_cost_ns = kSecond;
  newcomer.resident_since = kNow - 9 * kSecond;
  SwapCandidate higher = Idle(3, Priority::kHigh, 100, 0);
  SwapCandidate busy = Idle(4, Priority::kNormal, 100, SwapCandidate::kBusy);
  EXPECT_EQ(ChooseVictims({pinned, newcomer, higher, busy}, 1, Priority::kNormal, kRoom, kNow),
            Victims{});
  newcomer.resident_since = kNow - 10 * kSecond;
  EXPECT_EQ(ChooseVictims({newcomer}, 1, Priority::kNormal, kRoom, kNow), Victims{2});
  EXPECT_EQ(ChooseVictims({busy}, 1, Priority::kHigh, kRoom, kNow), Victims{4});
}

TEST(SwapPolicy, MovesNothingThatALargerOneMakesNeedless) {
  std::vector<SwapCandidate> all = {Idle(1, Priority::kLow, 10, 1), Idle(2, Priority::kLow, 90, 2)};
  EXPECT_EQ(ChooseVictims(all, 80, Priority::kLow, kRoom, kNow), Victims{2});
}

TEST(SwapPolicy, RefusesWhenTheHostHasNoRoom) {
  EXPECT_EQ(ChooseVictims({Idle(1, Priority::kLow, 100, 0)}, 50, Priority::kHigh, 99, kNow),
            Victims{});
}

RC_GTEST_PROP(SwapPolicy, FreesEnoughAndNobodyWhoMustStay, ()) {
  auto count = *rc::gen::inRange<uint64_t>(0, 12);
  std::vector<SwapCandidate> all;
  for (uint64_t i = 0; i < count; ++i) {
    SwapCandidate one = Idle(i, static_cast<Priority>(*rc::gen::inRange(0, 3)),
                             *rc::gen::inRange<uint64_t>(0, 1000), *rc::gen::inRange<Ns>(0, kNow));
    one.is_pinned = *rc::gen::arbitrary<bool>();
    one.resident_since = *rc::gen::inRange<Ns>(0, kNow);
    one.switch_cost_ns = *rc::gen::inRange<Ns>(0, kSecond);
    all.push_back(one);
  }
  auto wanted = *rc::gen::inRange<uint64_t>(1, 3000);
  auto asker = static_cast<Priority>(*rc::gen::inRange(0, 3));
  Victims victims = ChooseVictims(all, wanted, asker, kRoom, kNow);
  uint64_t freed = 0, could_free = 0;
  auto may_leave = [&](const SwapCandidate& one) {
    return !one.is_pinned && one.bytes != 0 && one.priority <= asker &&
           kNow - one.resident_since >= LeastResidency(one.switch_cost_ns);
  };
  for (const SwapCandidate& one : all) could_free += may_leave(one) ? one.bytes : 0;
  for (uint64_t victim : victims) {
    RC_ASSERT(may_leave(all[victim]));
    freed += all[victim].bytes;
  }
  RC_ASSERT(victims.empty() == (could_free < wanted));
  RC_ASSERT(victims.empty() || freed >= wanted);
  for (uint64_t victim : victims) RC_ASSERT(freed - all[victim].bytes < wanted);
}

}  // namespace
}  // namespace farcall::quota
