// SPDX-License-Identifier: Apache-2.0
// Claims that leave their GPUs for their host's memory, and come back.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolPark : public PoolCore {
 protected:
  PoolPark() { Report(); }

  // The host reports and takes the answer: it parks what it is asked to, if it does.
  void Report() {
    HostReport report;
    report.host = "h";
    report.incarnation = 1;
    report.beat = ++beat_;
    report.park_bytes = park_bytes_;
    Gpu gpu;
    gpu.name = "Model A";
    gpu.memory_bytes = 16 * kGiB;
    report.gpus.push_back(gpu);
    for (const Grant& grant : held_) {
      ReportedClaim claim;
      claim.claim = grant.claim;
      claim.epoch = grant.epoch;
      claim.sessions = idle_.count(grant.claim) != 0 ? 0 : 1;
      claim.is_parked = parked_.count(grant.claim) != 0;
      if (refuses_to_park_ && grant.is_parked) claim.park_refused = "its work did not end";
      if (has_no_room_ && claim.is_parked && !grant.is_parked) claim.park_refused = "no room";
      report.claims.push_back(claim);
    }
    held_ = Do(report).answer->grants;
    for (const Grant& grant : held_) {
      if (grant.is_parked && !refuses_to_park_) parked_.insert(grant.claim);
      if (!grant.is_parked && !has_no_room_) parked_.erase(grant.claim);
    }
  }
  void Beats(int count) {
    for (int i = 0; i < count; ++i) now_ += 1000, Report(), Do(Tick{});
  }
  void Ask(const std::string& id, int32_t priority, bool preemptible, uint64_t gib = 12) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.queue_priority = priority;
    request.ask.preemptible = preemptible;
    Do(request);
  }
  // "low" runs, has been warned and lost its place to "high".
  void Preempt() {
    Ask("low", 0, true);
    Beats(62);
    Ask("high", 5, false);
    ASSERT_EQ(State("low"), ClaimState::kPreempting);
    Beats(35);
  }

  uint64_t park_bytes_ = 64 * kGiB;
  bool refuses_to_park_ = false, has_no_room_ = false;
  std::vector<Grant> held_;
  std::set<std::string> parked_, idle_;
};

TEST_F(PoolPark, AVictimIsParkedKeepsItsEpochAndComesBack) {
  Preempt();
  EXPECT_EQ(State("low"), ClaimState::kParked);
  EXPECT_EQ(State("high"), ClaimState::kActive);
  EXPECT_EQ(core_.Find("low")->epoch, 1u);
  const Host& host = core_.hosts().at("h");
  EXPECT_EQ(host.parked_bytes, 12 * kGiB);
  EXPECT_EQ(host.gpus[0].used_bytes, 12 * kGiB);  // the other's alone
  const Explanation told = core_.Explain(*core_.Find("low"));
  EXPECT_EQ(told.place_in_queue, 1u);
  EXPECT_NE(told.why.find("parked on h"), std::string::npos) << told.why;
  ASSERT_EQ(core_.InOrder(10).size(), 1u);

  Do(ReleaseClaim{"high", "done", {}});
  Beats(3);
  EXPECT_EQ(State("low"), ClaimState::kActive);
  EXPECT_EQ(core_.Find("low")->epoch, 1u);
  EXPECT_TRUE(parked_.empty());
  EXPECT_EQ(core_.hosts().at("h").parked_bytes, 0u);
}

TEST_F(PoolPark, AHostThatParksNothingEndsItsSessions) {
  park_bytes_ = 0;
  Report();
  Preempt();
  EXPECT_EQ(State("low"), ClaimState::kPending);
  EXPECT_EQ(core_.Find("low")->reason, "preempted by high");
}

TEST_F(PoolPark, WhatCannotBeParkedIsEndedAsTheLastStep) {
  refuses_to_park_ = true;
  Preempt();
  EXPECT_EQ(State("low"), ClaimState::kPending);
  EXPECT_EQ(core_.Find("low")->reason, "preempted by high, and not parked: its work did not end");
  EXPECT_TRUE(HoldsCapacity(State("high")));
}

TEST_F(PoolPark, ItStaysIfNobodyWantsItsPlaceAnyMore) {
  Ask("low", 0, true);
  Beats(62);
  Ask("high", 5, false);
  refuses_to_park_ = false;
  now_ += 30'000;
  Do(Tick{});  // its host has been asked, and has not answered yet
  Do(ReleaseClaim{"high", "withdrawn", {}});
  EXPECT_EQ(State("low"), ClaimState::kActive);
  Beats(3);
  EXPECT_EQ(State("low"), ClaimState::kActive);
  EXPECT_TRUE(parked_.empty());
}

TEST_F(PoolPark, IsQueuedAgainWhenItsSessionsEnd) {
  Preempt();
  idle_.insert("low");
  Beats(3);
  EXPECT_EQ(State("low"), ClaimState::kPending);
  EXPECT_EQ(core_.hosts().at("h").parked_bytes, 0u);
}

TEST_F(PoolPark, EndsWithItsLifetime) {
  RequestClaim request;
  request.id = "low";
  request.ask.memory_bytes = 12 * kGiB;
  request.ask.preemptible = true;
  request.ask.lifetime_ms = 120'000;
  Do(request);
  Beats(62);
  Ask("high", 5, false);
  Beats(35);
  ASSERT_EQ(State("low"), ClaimState::kParked);
  Beats(30);
  EXPECT_EQ(State("low"), ClaimState::kExpired);
}

TEST_F(PoolPark, ReturnsToItsPlaceOnceItsHostHasRoom) {
  Preempt();
  has_no_room_ = true;
  Do(ReleaseClaim{"high", "done", {}});
  Beats(5);
  EXPECT_EQ(State("low"), ClaimState::kParked);
  EXPECT_EQ(core_.Find("low")->reason, "no room");
  has_no_room_ = false;
  Beats(40);
  EXPECT_EQ(State("low"), ClaimState::kActive);
}

TEST_F(PoolPark, AnotherControllerKnowsIt) {
  Preempt();
  Core next;
  std::vector<Claim> claims;
  for (const auto& [id, claim] : core_.claims()) claims.push_back(claim);
  std::vector<Host> hosts;
  for (const auto& [name, host] : core_.hosts()) hosts.push_back(host);
  next.Load(claims, hosts, now_);
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.Find("low")->state, ClaimState::kParked);
  EXPECT_EQ(next.hosts().at("h").parked_bytes, 12 * kGiB);
}

// Whoever was preempted last is not before who waits with a higher priority.
// Its host is away when it is placed, and is not told of it.
TEST_F(PoolPark, WhatAHostWasNeverGrantedItCannotHold) {
  Do(HostClosed{"h", 1});
  Ask("a", 0, false);
  ASSERT_EQ(State("a"), ClaimState::kReserved);
  HostReport report;
  report.host = "h";
  report.incarnation = 1;
  report.beat = ++beat_;
  report.park_bytes = park_bytes_;
  report.gpus = core_.hosts().at("h").gpus;
  ReportedClaim claim;
  claim.claim = "a";
  claim.epoch = core_.Find("a")->epoch;
  claim.sessions = 1;
  claim.is_parked = true;
  claim.park_refused = "its work does not end";
  report.claims = {claim};
  held_ = Do(report).answer->grants;
  EXPECT_EQ(State("a"), ClaimState::kReserved);
  ASSERT_EQ(held_.size(), 1u);
  Report();
  EXPECT_EQ(State("a"), ClaimState::kActive);
}

TEST_F(PoolPark, AHigherQueuePriorityComesBeforeIt) {
  Preempt();
  Ask("next", 5, false);
  Do(ReleaseClaim{"high", "done", {}});
  Beats(5);
  EXPECT_TRUE(HoldsCapacity(State("next")));
  EXPECT_EQ(State("low"), ClaimState::kParked);
}

TEST_F(PoolPark, ItsSizeIsNotChangedMeanwhile) {
  Preempt();
  ChangeClaim change;
  change.id = "low";
  change.memory_bytes = kGiB;
  EXPECT_TRUE(Do(change).refusal);
  change.memory_bytes.reset();
  change.queue_priority = 9;
  EXPECT_FALSE(Do(change).refusal);
}

}  // namespace
}  // namespace farcall::pool
