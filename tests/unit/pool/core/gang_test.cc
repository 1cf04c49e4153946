// SPDX-License-Identifier: Apache-2.0
// Gangs: all members have their places, or none has.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pool/core/core.h"
#include "pool/core/placing/gang_placer.h"
#include "pool/core/placing/preempt.h"
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

// Hosts of several GPUs of 16 GiB, which answer one by one.
class PoolGang : public testing::Test {
 protected:
  PoolGang() {
    core_.Load({}, {}, 0);
    now_ = 20'000;
  }
  Effects Do(const Event& event) {
    Effects effects = core_.Apply(event, now_);
    EXPECT_EQ(core_.Broken(), "");
    return effects;
  }
  // The host reports, with what it holds; it accepts what the answer grants.
  void Beat(const std::string& name, uint32_t sessions = 0) {
    HostReport report;
    report.host = name;
    report.incarnation = 1;
    report.beat = ++beat_;
    report.gpus.resize(gpus_[name]);
    for (Gpu& gpu : report.gpus) {
      gpu.name = "Model A";
      gpu.memory_bytes = 16 * kGiB;
    }
    for (const Grant& grant : granted_[name]) {
      ReportedClaim claim;
      claim.claim = grant.claim;
      claim.epoch = grant.epoch;
      claim.sessions = sessions;
      if (refuses_.count(name) != 0) claim.refused = "no room";
      report.claims.push_back(claim);
    }
    granted_[name] = Do(report).answer->grants;
  }
  void Join(const std::string& name, uint32_t gpus) {
    gpus_[name] = gpus;
    Beat(name);
  }
  Effects Request(const std::string& id, uint32_t members, uint64_t gib = 0, int32_t priority = 0,
                  bool preemptible = false) {
    RequestClaim request;
    request.id = id;
    request.members = members;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.queue_priority = priority;
    request.ask.preemptible = preemptible;
    return Do(request);
  }
  ClaimState State(const std::string& id) { return core_.Find(id)->state; }
  void Wait(Ms ms) {
    now_ += ms;
    Do(Tick{});
  }
  // Of the states of a gang's members, those that there are.
  std::set<ClaimState> States(const std::string& gang) {
    std::set<ClaimState> states;
    for (const Claim* member : core_.FindGang(gang)) states.insert(member->state);
    return states;
  }
  using States1 = std::set<ClaimState>;

  Core core_;
  Ms now_ = 0;
  uint64_t beat_ = 0;
  std::map<std::string, uint32_t> gpus_;
  std::map<std::string, std::vector<Grant>> granted_;
  std::set<std::string> refuses_;
};

TEST_F(PoolGang, NoneIsBoundBeforeAllHostsHaveAccepted) {
  Join("a", 1), Join("b", 1);
  EXPECT_EQ(Request("g", 2).claim, "g-0");
  EXPECT_EQ(States("g"), States1{ClaimState::kReserved});
  EXPECT_NE(core_.Find("g-0")->host, core_.Find("g-1")->host);
  Beat("a"), Beat("a");
  EXPECT_EQ(States("g"), States1{ClaimState::kReserved});
  Beat("b"), Beat("b");
  EXPECT_EQ(States("g"), States1{ClaimState::kBound});
}

TEST_F(PoolGang, WaitsUntilThereIsRoomForAll) {
  Join("a", 2), Join("b", 1);
  Request("one", 0);
  Beat("b"), Beat("a");
  Request("g", 3);
  EXPECT_EQ(States("g"), States1{ClaimState::kPending});
  EXPECT_EQ(core_.pending(), 1u);
  EXPECT_EQ(core_.InOrder(10).size(), 1u);
  EXPECT_NE(core_.Explain(*core_.Find("g-2")).why.find("room for 2 of 3 members"),
            std::string::npos);
  Do(ReleaseClaim{"one", "done", {}});
  for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
  EXPECT_EQ(States("g"), States1{ClaimState::kReserved});
}

TEST_F(PoolGang, WhatCouldNeverFitIsRefusedAtOnce) {
  Join("a", 2), Join("b", 1);
  Effects effects = Request("g", 4);
  ASSERT_TRUE(effects.refusal);
  EXPECT_EQ(effects.refusal->message,
            "a gang of 4 can never start: the pool's 3 GPUs, were they all free, have room for 3 "
            "of its members");
  EXPECT_TRUE(core_.claims().empty());
  EXPECT_TRUE(Request("h", kMaxGang + 1).refusal);
  SetProject set;
  set.project.name = "p";
  set.project.limit.gpus = 2;
  Do(set);
  RequestClaim request;
  request.id = "i";
  request.members = 3;
  request.ask.project = "p";
  effects = Do(request);
  ASSERT_TRUE(effects.refusal);
  EXPECT_NE(effects.refusal->message.find("the limit of project 'p' on GPUs"), std::string::npos)
      << effects.refusal->message;
}

TEST_F(PoolGang, GivesAllPlacesBackIfAHostDoesNotAnswerInTime) {
  Join("a", 1), Join("b", 1);
  Request("g", 2);
  Beat("a"), Beat("a");
  Wait(59'000);
  EXPECT_EQ(States("g"), States1{ClaimState::kReserved});
  Wait(2000);
  for (const Claim* member : core_.FindGang("g"))
    EXPECT_TRUE(member->state == ClaimState::kPending ||
                (member->state == ClaimState::kReleasing && member->requeues));
}

TEST_F(PoolGang, ARefusalOfOneHostSendsAllBack) {
  Join("a", 1), Join("b", 1), Join("c", 1);
  Request("g", 2);
  std::set<std::string> hosts;
  for (const Claim* member : core_.FindGang("g")) hosts.insert(member->host);
  const std::string first = *hosts.begin();
  refuses_.insert(first);
  Beat(first), Beat(first);
  refuses_.clear();
  for (int i = 0; i < 3; ++i)
    for (const char* host : {"a", "b", "c"}) Beat(host);
  EXPECT_EQ(States("g"), States1{ClaimState::kBound});
  for (const Claim* member : core_.FindGang("g")) EXPECT_NE(member->host, first);
}

TEST_F(PoolGang, WhatEndsOneEndsAll) {
  Join("a", 1), Join("b", 1);
  Request("g", 2);
  for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
  Do(ReleaseClaim{"g-1", "done", {}});
  EXPECT_EQ(States("g"), States1{ClaimState::kReleasing});
  Beat("a"), Beat("b"), Beat("a"), Beat("b");
  EXPECT_EQ(States("g"), States1{ClaimState::kReleased});
}

TEST_F(PoolGang, IsInUseWhileAnyOfItsMembersIs) {
  Join("a", 1), Join("b", 1);
  Request("g", 2);
  for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
  Beat("a", 1);
  for (int i = 0; i < 60; ++i) now_ += 3000, Beat("a", 1), Beat("b"), Do(Tick{});
  EXPECT_EQ(State("g-0"), ClaimState::kActive);
  EXPECT_EQ(State("g-1"), ClaimState::kBound);  // never used, for three minutes
}

TEST_F(PoolGang, ALostHostEndsAll) {
  Join("a", 1), Join("b", 1);
  RequestClaim request;
  request.id = "g";
  request.members = 2;
  request.ask.hold_ms = 10'000;
  Do(request);
  for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
  ASSERT_EQ(States("g"), States1{ClaimState::kBound});
  for (int i = 0; i < 30; ++i) now_ += 3000, Beat("a", 1), Do(Tick{});
  EXPECT_EQ(State("g-1"), ClaimState::kFailed);
  EXPECT_EQ(State("g-0"), ClaimState::kFailed);
}

// While two places are kept for the gang, single claims take no GPU of them.
TEST_F(PoolGang, AStreamOfSmallClaimsDoesNotStarveIt) {
  Join("a", 2), Join("b", 2);
  int made = 0;
  std::map<std::string, Ms> ends;
  auto fill = [&] {
    while (core_.pending() < 6) Request(std::string("s").append(std::to_string(++made)), 0);
    for (const auto& [id, claim] : core_.claims())
      if (HoldsCapacity(claim.state) && claim.gang.empty())
        ends.try_emplace(id, now_ + 20'000 + 7000 * static_cast<Ms>(ends.size() % 4));
  };
  fill();
  Request("g", 3);
  const Ms asked = now_;
  while (core_.Find("g-0")->state == ClaimState::kPending) {
    ASSERT_LT(now_ - asked, 200'000);
    now_ += 1000;
    for (const auto& [id, at] : ends)
      if (now_ >= at) Do(ReleaseClaim{id, "done", {}});
    std::erase_if(ends, [&](const auto& one) { return now_ >= one.second; });
    for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
    Do(Tick{});
    fill();
  }
}

TEST_F(PoolGang, PreemptsForAllOfItsMembersOrNone) {
  Join("a", 2), Join("b", 2);
  for (const char* id : {"p", "q", "r"}) Request(id, 0, 0, 0, true);
  Request("stays", 0);
  for (int i = 0; i < 2; ++i) Beat("a"), Beat("b");
  Wait(61'000);
  for (int i = 0; i < 2; ++i) Beat("a", 1), Beat("b", 1);
  EXPECT_TRUE(core_.FindGang("g").empty());
  Request("four", 4, 0, 5);  // one of the GPUs is not to be had
  for (const char* id : {"p", "q", "r"}) EXPECT_EQ(State(id), ClaimState::kActive);
  Do(ReleaseClaim{"four-0", "done", {}});
  Request("three", 3, 0, 5);
  for (const char* id : {"p", "q", "r"}) EXPECT_EQ(State(id), ClaimState::kPreempting);
}

TEST_F(PoolGang, LeavesAsAWhole) {
  Join("a", 1), Join("b", 1);
  Request("g", 2, 0, 0, true);
  for (int i = 0; i < 3; ++i) Beat("a"), Beat("b");
  Wait(61'000);
  Beat("a", 1), Beat("b", 1);
  Request("urgent", 0, 0, 5);
  EXPECT_EQ(States("g"), States1{ClaimState::kPreempting});
  Wait(31'000);
  for (int i = 0; i < 3; ++i) Beat("a"), Beat("b");
  EXPECT_EQ(States("g"), States1{ClaimState::kPending});
  EXPECT_TRUE(HoldsCapacity(State("urgent")));
}

TEST_F(PoolGang, TheSameKeyIsTheSameGang) {
  Join("a", 2);
  RequestClaim request;
  request.id = "g";
  request.members = 2;
  request.idempotency_key = "k";
  Do(request);
  request.id = "h";
  EXPECT_EQ(Do(request).claim, "g-0");
  request.members = 1;
  EXPECT_TRUE(Do(request).refusal);
  EXPECT_EQ(core_.claims().size(), 2u);
}

Hosts Rack(std::initializer_list<std::pair<const char*, uint32_t>> sizes) {
  Hosts hosts;
  for (const auto& [name, gpus] : sizes) {
    Host& host = hosts[name];
    host.name = name;
    host.state = HostState::kReady;
    host.gpus.resize(gpus);
    for (Gpu& gpu : host.gpus) gpu.memory_bytes = 16 * kGiB;
    host.Summarise();
  }
  return hosts;
}

std::map<std::string, int> MembersByHost(const std::optional<GangPlaces>& places) {
  std::map<std::string, int> members;
  for (const Place& place : *places) ++members[place.host];
  return members;
}

Claim Gang(uint32_t members, uint32_t count = 1) {
  Claim claim;
  claim.gang = "g";
  claim.gang_size = members;
  claim.ask.count = count;
  return claim;
}

TEST(PoolGangPlacer, PacksOnTheFewestHostsAndSpreadsOnTheMost) {
  Hosts hosts = Rack({{"a", 2}, {"b", 8}, {"c", 4}});
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, Gang(4))), (std::map<std::string, int>{{"c", 4}}));
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, Gang(10))),
            (std::map<std::string, int>{{"a", 2}, {"b", 8}}));
  Claim spread = Gang(6);
  spread.ask.placer = Placer::kSpread;
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, spread)).size(), 3u);
  EXPECT_FALSE(FindPlaces(hosts, Gang(15)));
  // Of 14 GPUs, each host's rest is too small for a member of 3.
  EXPECT_TRUE(FindPlaces(hosts, Gang(3, 3)));
  EXPECT_FALSE(FindPlaces(hosts, Gang(4, 3)));
}

TEST(PoolGangPlacer, StaysInOneZoneIfOneHasRoom) {
  Hosts hosts = Rack({{"a", 2}, {"b", 2}, {"c", 3}});
  hosts["a"].labels["zone"] = hosts["b"].labels["zone"] = "x";
  hosts["c"].labels["zone"] = "y";
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, Gang(4))),
            (std::map<std::string, int>{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, Gang(3))), (std::map<std::string, int>{{"c", 3}}));
}

TEST(PoolGangPlacer, NoTwoMembersShareAGpu) {
  Hosts hosts = Rack({{"a", 3}});
  Claim gang = Gang(3);
  gang.ask.memory_bytes = kGiB;
  std::set<uint32_t> devices;
  const std::optional<GangPlaces> places = FindPlaces(hosts, gang);
  for (const Place& place : *places) devices.insert(place.devices.front());
  EXPECT_EQ(devices.size(), 3u);
  gang.gang_size = 4;
  EXPECT_FALSE(FindPlaces(hosts, gang));
}

TEST(PoolGangPlacer, ByTopologyItIsOnOneHostElseInOneRack) {
  Hosts hosts = Rack({{"a", 2}, {"b", 2}, {"c", 3}, {"d", 4}});
  hosts["a"].labels = hosts["b"].labels = {{"rack", "r1"}};
  hosts["c"].labels = {{"rack", "r2"}};
  hosts["d"].labels = {{"nvlink-group.0", "x"}, {"nvlink-group.2", "x"}, {"nvlink-group.3", "y"}};
  hosts["d"].Arrange();
  Claim gang = Gang(2);
  gang.ask.placer = Placer::kTopology;
  std::optional<GangPlaces> places = FindPlaces(hosts, gang);
  ASSERT_TRUE(places);
  EXPECT_EQ(places->at(0).host, "d");  // its GPUs 0 and 2 are linked
  EXPECT_EQ(places->at(0).devices, std::vector<uint32_t>{0});
  EXPECT_EQ(places->at(1).devices, std::vector<uint32_t>{2});
  hosts["d"].is_cordoned = true;
  gang.gang_size = 4;
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, gang)),
            (std::map<std::string, int>{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, Gang(4))),
            (std::map<std::string, int>{{"b", 1}, {"c", 3}}));  // pack takes no heed of racks
  gang.gang_size = 5;                                           // no rack has room
  EXPECT_EQ(MembersByHost(FindPlaces(hosts, gang)).size(), 2u);
  // The GPUs of each member are close to each other.
  hosts["d"].is_cordoned = false;
  gang.gang_size = 2;
  gang.ask.count = 2;
  places = FindPlaces(hosts, gang);
  ASSERT_TRUE(places);
  EXPECT_EQ(places->at(0).devices, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(places->at(1).devices, (std::vector<uint32_t>{1, 3}));
}

TEST(PoolGangPlacer, NearTakesTheNearestZoneWithRoomForAll) {
  Hosts hosts = Rack({{"a", 2}, {"b", 3}, {"c", 4}, {"d", 9}});
  hosts["a"].labels["zone"] = "home";
  hosts["b"].labels["zone"] = "close";
  hosts["c"].labels["zone"] = "far";
  const std::vector<RoundTrip> table = {{"home", "close", 300}, {"far", "home", 9000}};
  Claim gang = Gang(2);
  gang.ask.placer = Placer::kNear;
  gang.ask.labels["zone"] = "home";
  auto by_host = [&] { return MembersByHost(FindPlaces(hosts, gang, {nullptr, &table})); };
  EXPECT_EQ(by_host(), (std::map<std::string, int>{{"a", 2}}));
  gang.gang_size = 3;
  EXPECT_EQ(by_host(), (std::map<std::string, int>{{"b", 3}}));
  gang.gang_size = 9;  // d alone, of whose zone nothing is known
  EXPECT_EQ(by_host(), (std::map<std::string, int>{{"d", 9}}));
  gang.gang_size = 12;
  EXPECT_EQ(by_host(), (std::map<std::string, int>{{"a", 2}, {"b", 3}, {"c", 4}, {"d", 3}}));
}

}  // namespace
}  // namespace farcall::pool
