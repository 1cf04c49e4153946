// SPDX-License-Identifier: Apache-2.0
// Quotas of projects: limits, borrowing, and reclaiming. Each host has one GPU of 16 GiB.
#include <functional>

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

constexpr Ms kMinRun = 60'000, kGrace = 30'000;

class PoolQuota : public PoolCore {
 protected:
  PoolQuota() {
    hosts_ = {"h", "h2"};
    Live(0);
  }
  void Make(const std::string& name, const std::function<void(Project&)>& fill = nullptr) {
    SetProject set;
    set.project.name = name;
    if (fill) fill(set.project);
    Effects effects = Do(set);
    EXPECT_FALSE(effects.refusal) << effects.refusal->message;
  }
  void Deserves(const std::string& name, uint64_t gib) {
    Make(name, [&](Project& project) { project.deserved.memory_bytes = gib * kGiB; });
  }
  Effects Ask(const std::string& id, const std::string& project, uint64_t gib,
              bool preemptible = true, const std::string& tenant = "") {
    RequestClaim request;
    request.id = id;
    request.tenant = tenant;
    request.ask.project = project;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.preemptible = preemptible;
    Effects effects = Do(request);
    EXPECT_FALSE(effects.refusal);
    return effects;
  }
  void Live(Ms ms) {
    for (Ms passed = 0; passed <= ms; passed += 5000) {
      for (const std::string& host : hosts_) Beat(1, host), Beat(1, host);
      if (passed < ms) Wait(std::min<Ms>(5000, ms - passed));
    }
  }
  void Release(const std::string& id) {
    Do(ReleaseClaim{id, "asked for", {}});
    Live(0);
  }
  Explanation Why(const std::string& id) { return core_.Explain(*core_.Find(id)); }
  bool Waits(const std::string& id) { return State(id) == ClaimState::kPending; }
  const ProjectState& Of(const std::string& name) { return *core_.FindProject(name); }

  std::vector<std::string> hosts_;
};

TEST_F(PoolQuota, AboveItsLimitAClaimWaitsWithThatReasonAndOthersPass) {
  Make("p", [](Project& p) { p.limit.memory_bytes = 8 * kGiB; });
  Ask("a", "p", 8), Ask("b", "p", 4), Ask("other", "", 4);
  EXPECT_FALSE(Waits("a"));
  EXPECT_TRUE(Waits("b"));
  EXPECT_FALSE(Waits("other"));
  EXPECT_EQ(Why("b").limit, "the limit of project 'p' on memory");
  EXPECT_NE(Why("b").why.find("it waits for the limit of project 'p' on memory"),
            std::string::npos);
  EXPECT_EQ(core_.InOrder(10).front().limit, "the limit of project 'p' on memory");
  Live(0);
  Release("a");
  EXPECT_FALSE(Waits("b"));
}

TEST_F(PoolQuota, AParentsLimitHoldsForAllOfItsChildren) {
  Make("p", [](Project& p) { p.limit.memory_bytes = 12 * kGiB; });
  Make("p/a"), Make("p/b");
  Ask("a", "p/a", 8), Ask("b", "p/b", 8), Ask("c", "p/b", 4);
  EXPECT_FALSE(Waits("a"));
  EXPECT_TRUE(Waits("b"));
  EXPECT_FALSE(Waits("c"));
}

TEST_F(PoolQuota, ALimitThatIsRaisedLetsWhatWaitedGo) {
  Make("p", [](Project& p) { p.limit.memory_bytes = 4 * kGiB; });
  Ask("a", "p", 8);
  EXPECT_TRUE(Waits("a"));
  Make("p", [](Project& p) { p.limit.memory_bytes = 8 * kGiB; });
  EXPECT_FALSE(Waits("a"));
}

TEST_F(PoolQuota, AWholeGpuCountsAllOfItsMemoryAndTime) {
  Make("p", [](Project& p) { p.limit.memory_bytes = 15 * kGiB; });
  Make("q", [](Project& p) { p.limit.gpus = 1; });
  RequestClaim whole;
  whole.id = "p1";
  whole.ask.project = "p";
  Do(whole);
  EXPECT_TRUE(Waits("p1"));
  for (const char* id : {"q1", "q2"}) {
    whole.id = id;
    whole.ask.project = "q";
    Do(whole);
  }
  EXPECT_FALSE(Waits("q1"));
  EXPECT_TRUE(Waits("q2"));
  EXPECT_EQ(Of("q").used.share_milli, 1000u);
  EXPECT_EQ(Of("q").used.memory_bytes, 16 * kGiB);
}

TEST_F(PoolQuota, LimitsOnOneModelLeaveOthers) {
  Make("p", [](Project& p) {
    p.models = {{"Model A", {}, {.memory_bytes = 4 * kGiB, .share_milli = {}, .gpus = {}}}};
  });
  Ask("a", "p", 4), Ask("b", "p", 4);
  EXPECT_FALSE(Waits("a"));
  EXPECT_TRUE(Waits("b"));  // all GPUs here are of that model
  EXPECT_EQ(Why("b").pass.removed[static_cast<size_t>(Filter::kQuota)], 2u);
  Ask("c", "", 4);
  EXPECT_FALSE(Waits("c"));
  Make("p");
  EXPECT_FALSE(Waits("b"));
}

TEST_F(PoolQuota, ClaimsThatRunAreBoundedByProjectAndByTenant) {
  Make("p", [](Project& p) {
    p.max_claims = 3;
    p.tenant_max_claims = 2;
  });
  for (const char* id : {"a1", "a2", "a3"}) Ask(id, "p", 1, true, "ann");
  EXPECT_TRUE(Waits("a3"));
  EXPECT_EQ(Why("a3").limit, "the limit of project 'p' on claims of one tenant, 2");
  Ask("b1", "p", 1, true, "ben"), Ask("b2", "p", 1, true, "ben");
  EXPECT_FALSE(Waits("b1"));
  EXPECT_TRUE(Waits("b2"));
}

TEST_F(PoolQuota, WithoutWeightAboveItsQuotaAProjectGetsNoMore) {
  Make("p", [](Project& p) {
    p.deserved.memory_bytes = 4 * kGiB;
    p.over_quota_weight = 0;
  });
  Ask("a", "p", 4), Ask("b", "p", 4);
  EXPECT_FALSE(Waits("a"));
  EXPECT_TRUE(Waits("b"));
}

TEST_F(PoolQuota, WhatWasLentIsReclaimed) {
  Deserves("owner", 16), Deserves("guest", 16);
  Ask("g1", "guest", 16), Ask("g2", "guest", 16);
  Live(kMinRun);
  Ask("o1", "owner", 16);
  // The youngest is the borrowed one.
  EXPECT_EQ(State("g1"), ClaimState::kActive);
  EXPECT_EQ(State("g2"), ClaimState::kPreempting);
  EXPECT_EQ(Why("o1").preempts, std::vector<std::string>{"g2"});
  EXPECT_NE(Why("g2").why.find("whose project has not got what it deserves"), std::string::npos);
  Live(kGrace + 5000);
  EXPECT_EQ(State("o1"), ClaimState::kActive);
  EXPECT_TRUE(Waits("g2"));
  // Neither has the other's place again, however long they wait.
  Live(kMinRun + kGrace + 20'000);
  EXPECT_EQ(State("o1"), ClaimState::kActive);
  EXPECT_EQ(State("g1"), ClaimState::kActive);
}

TEST_F(PoolQuota, NothingIsReclaimedBeyondTheQuotaOrFromWithinOne) {
  Deserves("owner", 16), Deserves("guest", 32);
  Ask("g1", "guest", 16), Ask("g2", "guest", 16);
  Live(kMinRun);
  Ask("o1", "owner", 16);
  Live(5000);
  EXPECT_EQ(State("g2"), ClaimState::kActive);  // within its quota
  Deserves("guest", 16);
  Deserves("owner", 8);
  Live(5000);
  EXPECT_EQ(State("g2"), ClaimState::kActive);  // o1 is above its own
  EXPECT_TRUE(Waits("o1"));
}

TEST_F(PoolQuota, WhatIsNotPreemptibleOrHasJustBegunStays) {
  Deserves("owner", 16);
  Ask("g1", "default", 16, /*preemptible=*/false);
  Ask("g2", "default", 16);
  Live(kMinRun - 10'000);
  Ask("o1", "owner", 16);
  EXPECT_EQ(State("g2"), ClaimState::kActive);
  Live(15'000);
  EXPECT_EQ(State("g1"), ClaimState::kActive);
  EXPECT_EQ(State("g2"), ClaimState::kPreempting);
}

TEST_F(PoolQuota, AChildReclaimsFromItsSiblingWithinWhatTheParentHas) {
  Make("p"), Deserves("p/a", 16);
  Make("p/b"), Deserves("other", 16);
  Ask("b1", "p/b", 16), Ask("x1", "other", 16);
  Live(kMinRun);
  Ask("a1", "p/a", 16);
  EXPECT_EQ(State("b1"), ClaimState::kPreempting);
  EXPECT_EQ(State("x1"), ClaimState::kActive);
}

TEST_F(PoolQuota, NoChainOfProjectsReclaimsInARing) {
  // Each deserves the half of what there is, and asks for all: A > B > C > A would be a ring.
  for (const char* name : {"a", "b", "c"}) Deserves(name, 16);
  for (const char* name : {"a", "b", "c"})
    for (int i = 0; i < 3; ++i) Ask(name + std::to_string(i), name, 16);
  Live(10 * (kMinRun + kGrace));
  uint64_t epochs = 0;
  for (const auto& [id, claim] : core_.claims()) epochs += claim.epoch;
  Live(10 * (kMinRun + kGrace));
  uint64_t later = 0;
  for (const auto& [id, claim] : core_.claims()) later += claim.epoch;
  EXPECT_EQ(epochs, later);
  for (const char* name : {"a", "b", "c"}) EXPECT_LE(Of(name).used.memory_bytes, 16 * kGiB);
}

TEST_F(PoolQuota, TheRuleNamesProjectQuotaAndWeight) {
  Deserves("owner", 16);
  Ask("full1", "", 16, false), Ask("full2", "", 16, false);
  Ask("o", "owner", 4);
  EXPECT_EQ(Why("o").rule,
            "fifo: project owner holds 0.0 % of the pool, weight 1, memory 0.0 GiB of 16.0 GiB "
            "deserved: below its quota, so before projects that are above");
  EXPECT_EQ(Why("o").fits_if, "memory is given back on a GPU");
}

}  // namespace
}  // namespace farcall::pool
