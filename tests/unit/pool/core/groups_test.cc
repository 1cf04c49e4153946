// SPDX-License-Identifier: Apache-2.0
// Resource groups: which hosts are theirs, whose claims they take, and in which order.
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

// Hosts h and k, with a GPU of 16 GiB each.
class PoolGroups : public PoolCore {
 protected:
  PoolGroups() { Beat(0, "k"); }

  Effects Make(const std::string& name, const std::vector<std::string>& hosts,
               const std::function<void(Group&)>& fill = nullptr) {
    SetGroup set;
    set.group.name = name;
    set.group.hosts = hosts;
    if (fill) fill(set.group);
    return Do(set);
  }
  Effects Ask(const std::string& id, uint64_t gib, const std::string& group,
              const std::string& project = "") {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.group = group;
    request.ask.project = project;
    return Do(request);
  }
  void Project(const std::string& name) {
    SetProject set;
    set.project.name = name;
    Do(set);
  }
  std::string HostOf(const std::string& id) { return core_.Find(id)->host; }
  std::string GroupOfHost(const std::string& name) { return core_.hosts().at(name).group; }
};

TEST_F(PoolGroups, AHostIsOfTheGroupThatNamesItOrWhoseSelectorFits) {
  Make("a", {"h"});
  EXPECT_EQ(GroupOfHost("h"), "a");
  EXPECT_EQ(GroupOfHost("k"), "");
  Make("b", {}, [](Group& group) { (void)ParseSelector("zone=x", &group.selector); });
  Do(SetLabels{"k", {{"zone", "x"}}, {}});
  Do(SetLabels{"h", {{"zone", "x"}}, {}});
  EXPECT_EQ(GroupOfHost("h"), "a");  // by name before by labels
  EXPECT_EQ(GroupOfHost("k"), "b");
  Do(SetLabels{"k", {}, {}});
  EXPECT_EQ(GroupOfHost("k"), "");
  Do(DeleteGroup{"a", {}});
  EXPECT_EQ(GroupOfHost("h"), "b");
}

TEST_F(PoolGroups, AClaimGoesToItsGroupsHostsAlone) {
  Make("a", {"h"});
  Ask("in", 4, "a"), Ask("out", 4, ""), Ask("also", 4, "default");
  EXPECT_EQ(HostOf("in"), "h");
  EXPECT_EQ(HostOf("out"), "k");
  EXPECT_EQ(HostOf("also"), "k");
  EXPECT_EQ(core_.Find("also")->ask.group, "");
  Ask("full", 14, "a");
  const Explanation told = core_.Explain(*core_.Find("full"));
  EXPECT_EQ(told.group, "a");
  EXPECT_EQ(told.pass.removed[static_cast<size_t>(Filter::kGroup)], 1u);
  EXPECT_NE(told.why.find("1 on hosts of other groups"), std::string::npos) << told.why;
  EXPECT_EQ(told.rule.rfind("fifo in group a", 0), 0u) << told.rule;
  EXPECT_EQ(told.place_in_queue, 1u);
}

TEST_F(PoolGroups, AGroupLendsMemoryMoreThanOnceWhereItsHostsDo) {
  auto twice = [](Group& group) { group.oversubscribe_milli = 2000; };
  auto lendable = [this](const char* host) {
    return core_.hosts().at(host).gpus[0].lendable_bytes() / kGiB;
  };
  Make("a", {"h"}, twice);
  EXPECT_EQ(lendable("h"), 16u) << "its host lends once";
  lends_milli_ = 1500;
  Beat(), Beat(0, "k");
  EXPECT_EQ(lendable("h"), 24u) << "the smaller of both counts";
  EXPECT_EQ(lendable("k"), 16u) << "its group lends once";
  Ask("one", 12, "a"), Ask("two", 12, "a"), Ask("three", 1, "a");
  EXPECT_EQ(HostOf("one"), "h");
  EXPECT_EQ(HostOf("two"), "h");
  EXPECT_EQ(State("three"), ClaimState::kPending);
  Do(ReleaseClaim{"three", "asked for", {}});
  Ask("large", 17, "a");
  EXPECT_FALSE(core_.Explain(*core_.Find("large")).pass.could_ever_fit) << "no GPU has so much";
  Do(ReleaseClaim{"large", "asked for", {}});
  Make("a", {"h"});  // once again
  EXPECT_EQ(lendable("h"), 16u);
  EXPECT_EQ(HostOf("two"), "h") << "what has a place keeps it";
  Beat(), Beat();
  Do(ReleaseClaim{"two", "asked for", {}});
  Beat(), Beat();
  Ask("next", 12, "a");
  EXPECT_EQ(State("next"), ClaimState::kPending);
  Make("a", {"h"}, twice);
  EXPECT_EQ(HostOf("next"), "h") << "a larger factor is room";
}

TEST_F(PoolGroups, AWholeGpuIsNobodyElsesHoweverMuchIsLent) {
  lends_milli_ = 2000;
  Beat();
  Make("a", {"h"}, [](Group& group) { group.oversubscribe_milli = 2000; });
  Ask("whole", 0, "a"), Ask("part", 4, "a");
  EXPECT_EQ(core_.Find("whole")->memory_bytes, 16 * kGiB);
  EXPECT_EQ(State("part"), ClaimState::kPending);
}

TEST_F(PoolGroups, AFactorIsFromOneToSixteen) {
  for (uint32_t milli : {0u, 999u, 16'001u}) {
    const Effects made = Make("a", {"h"}, [&](Group& group) { group.oversubscribe_milli = milli; });
    ASSERT_TRUE(made.refusal) << milli;
    EXPECT_EQ(made.refusal->field, "oversubscribe");
  }
}

TEST_F(PoolGroups, AGroupTakesClaimsOfItsProjectsAlone) {
  Project("research"), Project("research/vision"), Project("teaching");
  Make("a", {"h"}, [](Group& group) { group.projects = {"research"}; });
  EXPECT_FALSE(Ask("v", 4, "a", "research/vision").refusal);
  const Effects asked = Ask("t", 4, "a", "teaching");
  ASSERT_TRUE(asked.refusal);
  EXPECT_EQ(asked.refusal->code, RefusalCode::kDenied);
  EXPECT_EQ(asked.refusal->message, "group 'a' takes no claims of project 'teaching'");
  EXPECT_EQ(asked.refusal->hint, "its projects are research");
  EXPECT_EQ(Ask("x", 4, "nobody").refusal->field, "group");
  EXPECT_TRUE(Do(DeleteProject{"research", {}}).refusal);
}

TEST_F(PoolGroups, WhoMayUseAGroupNoMoreWaitsAndIsToldWhy) {
  Project("research"), Project("teaching");
  Make("a", {"h"});
  Ask("runs", 10, "a", "teaching"), Ask("waits", 10, "a", "teaching");
  Make("a", {"h"}, [](Group& group) { group.projects = {"research"}; });
  EXPECT_EQ(HostOf("runs"), "h");  // what has a place keeps it
  Beat(), Beat();
  Do(ReleaseClaim{"runs", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(State("waits"), ClaimState::kPending);
  const Explanation told = core_.Explain(*core_.Find("waits"));
  EXPECT_NE(told.why.find("it waits for group 'a' to take claims of project 'teaching'; its "
                          "projects are research"),
            std::string::npos)
      << told.why;
  EXPECT_EQ(told.fits_if, "an operator lets its project use the group, or it asks for another one");
  Make("a", {"h"});
  EXPECT_EQ(HostOf("waits"), "h");
}

TEST_F(PoolGroups, LimitsAreOnWhatWaitsAndOnWhatHasAPlace) {
  Make("a", {"h"}, [](Group& group) {
    group.max_pending = 1;
    group.max_claims = 1;
  });
  Ask("one", 2, "a"), Ask("two", 2, "a");
  EXPECT_EQ(State("one"), ClaimState::kReserved);
  EXPECT_EQ(State("two"), ClaimState::kPending);
  EXPECT_EQ(core_.Explain(*core_.Find("two")).limit, "the limit of group 'a' on claims, 1");
  const Effects third = Ask("three", 2, "a");
  ASSERT_TRUE(third.refusal);
  EXPECT_EQ(third.refusal->code, RefusalCode::kTooMany);
  EXPECT_FALSE(Ask("elsewhere", 2, "").refusal);
  Beat(), Beat();
  Do(ReleaseClaim{"one", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(HostOf("two"), "h");
}

TEST_F(PoolGroups, EachHasItsOwnSequencerWhichMayChange) {
  Make("a", {"h"}, [](Group& group) { group.sequencer = "lifo"; });
  Ask("full-a", 16, "a"), Ask("full", 16, "");
  for (const char* id : {"1", "2", "3"}) Ask(std::string("a") + id, 16, "a"), Ask(id, 16, "");
  auto order = [&] {
    std::string text;
    for (const Waiting& waiting : core_.InOrder(10)) text += waiting.claim->id + " ";
    return text;
  };
  EXPECT_EQ(order(), "a3 a2 a1 1 2 3 ");
  Make("a", {"h"}, [](Group& group) { group.sequencer = "fifo"; });
  EXPECT_EQ(order(), "a1 a2 a3 1 2 3 ");
  Beat(), Beat(0, "k"), Beat(), Beat(0, "k");
  Do(ReleaseClaim{"full-a", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(HostOf("a1"), "h");
}

TEST_F(PoolGroups, APlacerIsTheClaimsElseItsGroupsElseThePools) {
  Make("a", {"h"}, [](Group& group) { group.placer = Placer::kFgd; });
  RequestClaim request;
  request.ask.memory_bytes = kGiB;
  request.ask.placer = Placer::kUnnamed;
  request.ask.group = "a";
  request.id = "of-group", Do(request);
  request.ask.placer = Placer::kSpread;
  request.id = "own", Do(request);
  request.ask.placer = Placer::kUnnamed;
  request.ask.group = "";
  request.id = "of-pool", Do(request);
  EXPECT_EQ(core_.Find("of-group")->ask.placer, Placer::kFgd);
  EXPECT_EQ(core_.Find("own")->ask.placer, Placer::kSpread);
  EXPECT_EQ(core_.Find("of-pool")->ask.placer, Placer::kPack);
}

TEST_F(PoolGroups, RoundTripsAreTheGroupsElseThoseOfDefault) {
  auto near = [&](const std::string& id, const std::string& group) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = kGiB;
    request.ask.placer = Placer::kNear;
    request.ask.labels["zone"] = "home";
    request.ask.group = group;
    Do(request);
    return core_.Explain(*core_.Find(id)).placement;
  };
  Do(SetLabels{"h", {{"zone", "x"}}, {}});
  Do(SetLabels{"k", {{"zone", "y"}}, {}});
  Ask("begun", 1, "");
  EXPECT_EQ(HostOf("begun"), "h");
  EXPECT_EQ(near("unknown", ""), "near to zone home: zone x at an unknown round trip");
  Make("default", {}, [](Group& group) { group.round_trips = {{"home", "y", 1500}}; });
  EXPECT_EQ(near("known", ""), "near to zone home: zone y at 1.5 ms");
  Make("a", {"h"});
  EXPECT_EQ(near("other", "a"), "near to zone home: zone x at an unknown round trip");
  Make("a", {"h"}, [](Group& group) { group.round_trips = {{"x", "home", 200}}; });
  EXPECT_EQ(near("own", "a"), "near to zone home: zone x at 0.2 ms");
  const Effects wrong = Make("a", {"h"}, [](Group& group) { group.round_trips = {{"x", "x", 1}}; });
  ASSERT_TRUE(wrong.refusal);
  EXPECT_EQ(wrong.refusal->field, "round_trips");
}

TEST_F(PoolGroups, AHostThatLeavesAGroupKeepsWhatRunsThere) {
  Make("a", {"h"});
  Ask("runs", 4, "a");
  Beat(1), Beat(1);
  Make("a", {"k"});
  EXPECT_EQ(HostOf("runs"), "h");
  Ask("next", 4, "a"), Ask("other", 4, "");
  EXPECT_EQ(HostOf("next"), "k");
  EXPECT_EQ(HostOf("other"), "h");
  EXPECT_TRUE(Do(DeleteGroup{"a", {}}).refusal);
}

TEST_F(PoolGroups, WhatCannotBeIsRefused) {
  auto field = [](const Effects& effects) { return effects.refusal ? effects.refusal->field : ""; };
  EXPECT_EQ(field(Make("a b", {"h"})), "name");
  EXPECT_EQ(field(Make("a", {})), "selector");
  EXPECT_EQ(field(Make("a", {"h", "h"})), "hosts");
  EXPECT_EQ(field(Make("default", {"h"})), "hosts");
  EXPECT_EQ(field(Make("a", {"h"}, [](Group& group) { group.sequencer = "best"; })), "sequencer");
  EXPECT_EQ(field(Make("a", {"h"}, [](Group& group) { group.projects = {"nobody"}; })), "projects");
  EXPECT_EQ(field(Make("a", {"h"},
                       [](Group& group) { (void)ParseSelector("model=A", &group.selector); })),
            "selector");
  EXPECT_EQ(field(Make("a", {"h"})), "");
  EXPECT_EQ(field(Make("b", {"h"})), "hosts");
  EXPECT_EQ(field(Do(DeleteGroup{"default", {}})), "name");
  EXPECT_EQ(field(Do(DeleteGroup{"nobody", {}})), "name");
  SetGroup stale;
  stale.group.name = "a";
  stale.group.hosts = {"h"};
  stale.if_revision = 0;
  EXPECT_EQ(field(Do(stale)), "If-Match");
}

TEST_F(PoolGroups, AGangThatItsGroupCanNeverHoldIsRefused) {
  Make("a", {"h", "k"}, [](Group& group) { group.max_claims = 1; });
  RequestClaim request;
  request.id = "g";
  request.members = 2;
  request.ask.memory_bytes = kGiB;
  request.ask.group = "a";
  EXPECT_EQ(Do(request).refusal->message,
            "a gang of 2 can never start: group 'a' has at most 1 claims");
  Make("a", {"h"});
  EXPECT_EQ(Do(request).refusal->message,
            "a gang of 2 can never start: the pool's 2 GPUs, were they all free, have room for 1 "
            "of its members");
}

TEST_F(PoolGroups, AReservationsGroupIsItsClaims) {
  Make("a", {"h"});
  MakeReservation make;
  make.reservation.name = "r";
  make.reservation.group = "a";
  make.now_unix = 1000;
  make.reservation.end_unix = 2000;
  ASSERT_FALSE(Do(make).refusal);
  EXPECT_EQ(core_.reservations().at("r").held.front().host, "h");
  RequestClaim request;
  request.id = "c";
  request.ask.memory_bytes = kGiB;
  request.ask.reservation = "r";
  Do(request);
  EXPECT_EQ(HostOf("c"), "h");
  EXPECT_EQ(core_.Find("c")->ask.group, "a");
  EXPECT_TRUE(Do(DeleteGroup{"a", {}}).refusal);
}

TEST_F(PoolGroups, TheyAreDeclaredAsAWhole) {
  auto group = [](const char* name, const char* host) {
    Group made;
    made.name = name;
    made.hosts = {host};
    return made;
  };
  Make("z", {"h"});
  ApplyConfig apply;
  apply.groups = {group("a", "h"), group("z", "k")};  // h goes from one to the other
  apply.is_dry_run = true;
  const Effects dry = Do(apply);
  ASSERT_EQ(dry.config.size(), 2u);
  EXPECT_EQ(dry.config[0].action + dry.config[1].action, "createchange");
  EXPECT_EQ(GroupOfHost("h"), "z");
  apply.is_dry_run = false;
  EXPECT_FALSE(Do(apply).refusal);
  EXPECT_EQ(GroupOfHost("h") + GroupOfHost("k"), "az");
  EXPECT_EQ(Do(apply).config[1].action, "none");
  apply.groups = {group("a", "k")};
  EXPECT_EQ(Do(apply).refusal->message, "group 'a': host 'k' is of group 'z' already");
}

}  // namespace
}  // namespace farcall::pool
