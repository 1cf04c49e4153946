// SPDX-License-Identifier: Apache-2.0
// Queue priorities, and claims that leave for others. The host has one GPU of 16 GiB.
#include "pool/core/placing/preempt.h"

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolPreempt : public PoolCore {
 protected:
  static constexpr Ms kMinRun = 60'000, kGrace = 30'000;

  Effects Ask(const std::string& id, uint64_t gib, int32_t priority, bool preemptible = false) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.queue_priority = priority;
    request.ask.preemptible = preemptible;
    return Do(request);
  }
  // A claim that has run for as long as it must before it may be preempted.
  void Run(const std::string& id, uint64_t gib, int32_t priority, bool preemptible = true) {
    Ask(id, gib, priority, preemptible);
    Beat(1), Beat(1);
    ASSERT_EQ(State(id), ClaimState::kActive);
  }
  // Time goes by, and the host beats.
  void Live(Ms ms) {
    for (Ms passed = 0; passed < ms; passed += 5000) {
      Beat(1);
      Wait(std::min<Ms>(5000, ms - passed));
    }
  }
  std::string Why(const std::string& id) { return core_.Explain(*core_.Find(id)).why; }
};

TEST_F(PoolPreempt, AHigherQueuePriorityIsPlacedFirstWheneverItCame) {
  Run("a", 12, 0, /*preemptible=*/false);
  Ask("first", 10, 0);
  Ask("urgent", 10, 5);
  EXPECT_EQ(core_.Explain(*core_.Find("urgent")).place_in_queue, 1u);
  EXPECT_EQ(core_.Explain(*core_.Find("first")).place_in_queue, 2u);
  Do(ReleaseClaim{"a", "asked for", {}});
  Beat(), Beat();
  EXPECT_NE(State("urgent"), ClaimState::kPending);
  EXPECT_EQ(State("first"), ClaimState::kPending);
}

TEST_F(PoolPreempt, AVictimIsWarnedGoesOnForTheGraceAndIsQueuedAgain) {
  Run("low", 12, 0);
  Live(kMinRun);
  Effects asked = Ask("urgent", 10, 5);
  EXPECT_EQ(State("low"), ClaimState::kPreempting);
  EXPECT_EQ(core_.Find("low")->preempted_by, "urgent");
  EXPECT_NE(Why("low").find("which it leaves in 30 s for claim urgent"), std::string::npos);
  EXPECT_NE(Why("urgent").find("1 claim(s) of a lower priority leave"), std::string::npos);
  EXPECT_EQ(Beat(1).answer->grants.size(), 1u);  // it is granted as before
  Live(kGrace - 1000);
  EXPECT_EQ(State("low"), ClaimState::kPreempting);
  EXPECT_EQ(core_.Find("low")->sessions, 1u);
  Wait(1000);
  EXPECT_EQ(State("low"), ClaimState::kReleasing);
  EXPECT_EQ(State("urgent"), ClaimState::kPending);
  Beat(1), Beat(1);
  EXPECT_EQ(State("low"), ClaimState::kPending);
  EXPECT_NE(State("urgent"), ClaimState::kPending);
  EXPECT_EQ(core_.Find("low")->reason, "preempted by urgent");
  // And comes back, in its old place.
  Do(ReleaseClaim{"urgent", "asked for", {}});
  Beat(), Beat(), Beat();
  EXPECT_NE(State("low"), ClaimState::kPending);
}

TEST_F(PoolPreempt, NobodyLeavesWhoMayNotOrHasNotRunForLongEnough) {
  Run("steady", 6, 0, /*preemptible=*/false);
  Run("equal", 6, 5);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  Live(5000);
  EXPECT_EQ(State("steady"), ClaimState::kActive);
  EXPECT_EQ(State("equal"), ClaimState::kActive);
  EXPECT_EQ(State("urgent"), ClaimState::kPending);
}

TEST_F(PoolPreempt, AClaimMayRunForAMinuteBeforeItLeaves) {
  Run("young", 12, 0);
  Ask("urgent", 10, 5);
  EXPECT_EQ(State("young"), ClaimState::kActive);
  Live(kMinRun - 1000);
  EXPECT_EQ(State("young"), ClaimState::kActive);
  Live(2000);
  EXPECT_EQ(State("young"), ClaimState::kPreempting);
}

TEST_F(PoolPreempt, NothingIsPreemptedForAClaimThatWouldNotFitThen) {
  Run("steady", 8, 9, /*preemptible=*/false);
  Run("low", 6, 0);
  Live(kMinRun);
  Ask("urgent", 12, 5);
  Live(5000);
  EXPECT_EQ(State("low"), ClaimState::kActive);
}

TEST_F(PoolPreempt, TheFewestLeaveAndOfThemTheLowestAndThenTheYoungest) {
  Run("large", 8, 1);
  Run("small", 4, 0);
  Live(5000);
  Run("smaller", 4, 0);
  Live(kMinRun);
  Ask("needs8", 8, 5);
  EXPECT_EQ(State("large"), ClaimState::kPreempting);  // one instead of two
  EXPECT_EQ(State("small"), ClaimState::kActive);
  EXPECT_EQ(State("smaller"), ClaimState::kActive);
  Ask("needs4", 4, 5);
  EXPECT_EQ(State("small"), ClaimState::kActive);
  EXPECT_EQ(State("smaller"), ClaimState::kPreempting);
}

TEST_F(PoolPreempt, WhoeverLeavesStaysIfTheOtherGoesAway) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  ASSERT_EQ(State("low"), ClaimState::kPreempting);
  Do(ReleaseClaim{"urgent", "asked for", {}});
  EXPECT_EQ(State("low"), ClaimState::kActive);
  Live(kGrace + 5000);
  EXPECT_EQ(State("low"), ClaimState::kActive);
}

TEST_F(PoolPreempt, ThePlaceGoesToNobodyElseMeanwhile) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 16, 5);
  ASSERT_EQ(State("low"), ClaimState::kPreempting);
  Ask("small", 2, 0);  // would fit beside "low"
  EXPECT_EQ(State("small"), ClaimState::kPending);
  Live(kGrace);
  Beat(1), Beat(1);
  EXPECT_NE(State("urgent"), ClaimState::kPending);
}

TEST_F(PoolPreempt, AChainOfPreemptionsEndsWithTheHighest) {
  Run("c", 12, 0);
  Live(kMinRun);
  Ask("b", 12, 1, /*preemptible=*/true);
  Ask("a", 12, 2);
  EXPECT_EQ(State("c"), ClaimState::kPreempting);
  Live(kGrace);
  Beat(1), Beat(1), Beat(1);
  EXPECT_EQ(State("a"), ClaimState::kActive);
  EXPECT_EQ(State("b"), ClaimState::kPending);
  EXPECT_EQ(State("c"), ClaimState::kPending);
}

TEST_F(PoolPreempt, AReleasedVictimFreesThePlaceAtOnce) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  Do(ReleaseClaim{"low", "asked for", {}});
  Beat(1), Beat(1);
  EXPECT_EQ(State("low"), ClaimState::kReleased);
  EXPECT_NE(State("urgent"), ClaimState::kPending);
}

TEST_F(PoolPreempt, AVictimThatIsMadeSteadyStays) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  ASSERT_EQ(State("low"), ClaimState::kPreempting);
  ChangeClaim change;
  change.id = "low";
  change.preemptible = false;
  EXPECT_FALSE(Do(change).refusal);
  EXPECT_EQ(State("low"), ClaimState::kActive);
  Live(kGrace + 5000);
  EXPECT_EQ(State("low"), ClaimState::kActive);
}

TEST_F(PoolPreempt, AVictimThatIsMadeSteadyAndResizedInOneChangeStays) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  ASSERT_EQ(State("low"), ClaimState::kPreempting);
  ChangeClaim change;
  change.id = "low";
  change.memory_bytes = 11 * kGiB;
  change.queue_priority = 5;
  Effects effects = Do(change);
  EXPECT_FALSE(effects.refusal.has_value());
  EXPECT_EQ(State("low"), ClaimState::kActive);
  EXPECT_EQ(core_.Find("low")->preempted_by, "");
  EXPECT_EQ(core_.Broken(), "");
}

TEST_F(PoolPreempt, ANewControllerForgetsWhoLeftForWhom) {
  Run("low", 12, 0);
  Live(kMinRun);
  Ask("urgent", 10, 5);
  std::vector<Claim> claims;
  std::vector<Host> hosts;
  for (const auto& [id, claim] : core_.claims()) claims.push_back(claim);
  for (const auto& [name, host] : core_.hosts()) hosts.push_back(host);
  Core next;
  next.Load(std::move(claims), std::move(hosts), now_);
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.Find("low")->state, ClaimState::kActive);
}

TEST_F(PoolPreempt, AQueuePriorityOutOfRangeIsRefused) {
  EXPECT_EQ(Ask("x", 1, 1001).refusal->field, "queue_priority");
  EXPECT_EQ(Ask("x", 1, -1001).refusal->field, "queue_priority");
}

// On hosts of several GPUs, without a core.
class Evictions : public testing::Test {
 protected:
  void Gpus(const std::string& host, size_t count) {
    Host& made = hosts_[host];
    made.name = host;
    made.state = HostState::kReady;
    made.gpus.resize(count);
    for (Gpu& gpu : made.gpus) gpu.memory_bytes = 16 * kGiB;
  }
  void Held(const std::string& id, const std::string& host, std::vector<uint32_t> devices,
            uint64_t gib, int32_t priority = 0) {
    Claim& claim = claims_[id];
    claim.id = id;
    claim.host = host;
    claim.devices = std::move(devices);
    claim.state = ClaimState::kActive;
    claim.memory_bytes = claim.ask.memory_bytes = gib * kGiB;
    claim.ask.queue_priority = priority;
    hosts_.at(host).claims.insert(id);
    for (uint32_t device : claim.devices) {
      Gpu& gpu = hosts_.at(host).gpus[device];
      gpu.used_bytes += claim.memory_bytes;
      ++gpu.claims;
    }
  }
  std::optional<Eviction> For(uint32_t count, uint64_t gib) {
    Claim claim;
    claim.ask.count = count;
    claim.ask.memory_bytes = gib * kGiB;
    claim.ask.queue_priority = 5;
    Leavers leavers;
    for (const auto& [id, other] : claims_)
      if (other.ask.queue_priority < 5) leavers[other.host].push_back(&other);
    return FindEviction(
        hosts_, leavers, [](const Claim&) { return true; }, claim);
  }

  Hosts hosts_;
  std::map<std::string, Claim> claims_;
};

TEST_F(Evictions, SeveralGpusComeFromOneHost) {
  Gpus("h1", 2), Gpus("h2", 2);
  Held("a", "h1", {0}, 12), Held("b", "h1", {1}, 12, /*priority=*/9);
  Held("c", "h2", {0}, 12), Held("d", "h2", {1}, 12);
  std::optional<Eviction> found = For(2, 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->places[0].host, "h2");
  EXPECT_EQ(found->places[0].devices, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(found->victims, (std::vector<std::string>{"c", "d"}));
}

TEST_F(Evictions, AClaimOnSeveralGpusLeavesThemAll) {
  Gpus("h", 3);
  Held("wide", "h", {0, 1}, 12);
  Held("narrow", "h", {2}, 12);
  std::optional<Eviction> found = For(2, 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->victims, std::vector<std::string>{"wide"});
  EXPECT_EQ(found->places[0].devices, (std::vector<uint32_t>{0, 1}));
}

TEST_F(Evictions, AFreeGpuOfTheHostIsUsedToo) {
  Gpus("h", 2);
  Held("a", "h", {0}, 12);
  std::optional<Eviction> found = For(2, 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->victims, std::vector<std::string>{"a"});
}

TEST_F(Evictions, WhereNobodyMayLeaveThereIsNone) {
  Gpus("h", 1);
  Held("a", "h", {0}, 12, /*priority=*/7);
  EXPECT_FALSE(For(1, 8));
}

}  // namespace
}  // namespace farcall::pool
