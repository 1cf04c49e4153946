// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

TEST_F(PoolCore, AClaimIsPlacedGrantedAcceptedUsedAndReleased) {
  Effects asked = Request("c", 4);
  EXPECT_EQ(asked.claim, "c");
  EXPECT_EQ(asked.pushes.count("h"), 1u);
  EXPECT_EQ(State("c"), ClaimState::kReserved);
  Effects answered = Beat();
  ASSERT_EQ(answered.answer->grants.size(), 1u);
  EXPECT_EQ(answered.answer->grants[0].epoch, 1u);
  Beat();
  EXPECT_EQ(State("c"), ClaimState::kBound);
  Beat(2);
  EXPECT_EQ(State("c"), ClaimState::kActive);
  EXPECT_EQ(core_.Find("c")->sessions, 2u);
  Do(ReleaseClaim{"c", "asked for", {}});
  EXPECT_EQ(State("c"), ClaimState::kReleasing);
  EXPECT_EQ(core_.hosts().at("h").gpus[0].used_bytes, 4 * kGiB);
  EXPECT_TRUE(Beat(2).answer->grants.empty());
  EXPECT_EQ(State("c"), ClaimState::kReleasing);
  Beat();
  EXPECT_EQ(State("c"), ClaimState::kReleased);
  EXPECT_EQ(core_.hosts().at("h").gpus[0].used_bytes, 0u);
}

TEST_F(PoolCore, WhatDoesNotFitHoldsNobodyUpAndComesFirstWhenItFits) {
  Request("a", 10);
  Request("large", 12);
  Request("larger", 14);
  Request("small", 2);
  EXPECT_EQ(State("large"), ClaimState::kPending);
  EXPECT_EQ(State("small"), ClaimState::kReserved);
  EXPECT_EQ(core_.Explain(*core_.Find("larger")).place_in_queue, 2u);
  EXPECT_EQ(core_.Explain(*core_.Find("larger")).why,
            "asks 14.0 GiB: of 1 GPU(s), 1 without the memory (at most 4.0 GiB free); place 2 in "
            "the queue");
  Beat();
  Do(ReleaseClaim{"a", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(State("large"), ClaimState::kReserved);
  EXPECT_EQ(State("larger"), ClaimState::kPending);
}

TEST_F(PoolCore, AnIdempotencyKeyGivesTheSameClaimAndRefusesAnotherRequest) {
  Request("a", 4, "key");
  EXPECT_EQ(Request("b", 4, "key").claim, "a");
  EXPECT_EQ(core_.Find("b"), nullptr);
  Effects other = Request("c", 5, "key");
  ASSERT_TRUE(other.refusal);
  EXPECT_EQ(other.refusal->field, "Idempotency-Key");
}

TEST_F(PoolCore, ARevisionThatHasPassedIsAConflict) {
  Request("a", 4);
  uint64_t seen = core_.Find("a")->revision;
  Beat(), Beat();
  Effects refused = Do(ReleaseClaim{"a", "", seen});
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->code, RefusalCode::kConflict);
  EXPECT_FALSE(Do(ReleaseClaim{"a", "", core_.Find("a")->revision}).refusal);
}

TEST_F(PoolCore, WhatCannotBeIsRefusedWithItsField) {
  RequestClaim request;
  request.id = "a";
  request.ask.share_milli = 1001;
  EXPECT_EQ(Do(request).refusal->field, "share_milli");
  request.ask.share_milli = 500;
  request.ask.limit_milli = 400;
  EXPECT_EQ(Do(request).refusal->field, "share_milli");
  request.ask.limit_milli = 0;
  request.ask.count = 0;
  EXPECT_EQ(Do(request).refusal->field, "count");
  EXPECT_EQ(Do(ReleaseClaim{"none", "", {}}).refusal->code, RefusalCode::kNotFound);
}

TEST_F(PoolCore, AChangeCountsAsTheLargerUntilItsHostHasAcceptedIt) {
  Request("c", 4);
  Beat(), Beat(1);
  ChangeClaim change;
  change.id = "c";
  change.memory_bytes = 6 * kGiB;
  change.share_milli = 500;
  change.net_bytes_per_s = 20'000'000;
  Effects asked = Do(change);
  EXPECT_FALSE(asked.refusal);
  EXPECT_EQ(asked.quota_revision, 1u);
  EXPECT_EQ(asked.pushes.count("h"), 1u);
  const Gpu& gpu = core_.hosts().at("h").gpus[0];
  EXPECT_EQ(gpu.used_bytes, 6 * kGiB);
  EXPECT_TRUE(core_.Find("c")->before);
  Effects second = Do(change);  // the same again: nothing to do
  EXPECT_FALSE(second.refusal);
  change.share_milli = 250;
  EXPECT_EQ(Do(change).refusal->code, RefusalCode::kConflict);
  Effects answered = Beat(1);
  EXPECT_EQ(answered.answer->grants[0].share_milli, 500u);
  EXPECT_EQ(answered.answer->grants[0].net_bytes_per_s, 20'000'000u);
  EXPECT_TRUE(core_.Find("c")->before);
  Beat(1);
  EXPECT_FALSE(core_.Find("c")->before);
  EXPECT_EQ(core_.Find("c")->memory_bytes, 6 * kGiB);
  change.memory_bytes = 2 * kGiB;  // less: what is in force counts until then
  EXPECT_EQ(Do(change).quota_revision, 2u);
  EXPECT_EQ(gpu.used_bytes, 6 * kGiB);
  EXPECT_EQ(gpu.used_milli, 500u);
  Beat(1), Beat(1);
  EXPECT_EQ(gpu.used_bytes, 2 * kGiB);
  EXPECT_EQ(gpu.used_milli, 250u);
  EXPECT_EQ(State("c"), ClaimState::kActive);
}

TEST_F(PoolCore, AChangeThatItsHostRefusesIsAsIfItHadNotBeen) {
  Request("c", 4);
  Beat(), Beat(1);
  refuses_ = true;
  ChangeClaim change;
  change.id = "c";
  change.memory_bytes = 1 * kGiB;
  Do(change);
  Beat(1), Beat(1);
  const Claim& claim = *core_.Find("c");
  EXPECT_FALSE(claim.before);
  EXPECT_EQ(claim.memory_bytes, 4 * kGiB);
  EXPECT_EQ(claim.ask.memory_bytes, 4 * kGiB);
  EXPECT_EQ(claim.change_refused, "it holds more");
  EXPECT_EQ(claim.refused_revision, 1u);
  EXPECT_EQ(State("c"), ClaimState::kActive);
  EXPECT_EQ(core_.hosts().at("h").refusals, 0u);
}

TEST_F(PoolCore, AHostThatRefusesThreeThatFitIsCordonedThoughItHoldsOthers) {
  Request("held", 4);
  Beat();
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_FALSE(core_.hosts().at("h").is_cordoned);
    full_for_.insert(id);
    Request(id, 1);
    Beat(1), Beat(1), Beat(1);
    EXPECT_EQ(State(id), ClaimState::kPending);
  }
  EXPECT_TRUE(core_.hosts().at("h").is_cordoned);
  EXPECT_EQ(core_.hosts().at("h").reason,
            "its ledger refused 3 claims that fit its inventory: no room");
  EXPECT_EQ(State("held"), ClaimState::kActive);
}

TEST_F(PoolCore, AChangeWithoutRoomOnItsHostIsRefusedAndAWaitingClaimsMakesItFit) {
  Request("a", 10), Request("b", 4), Request("waits", 8);
  Beat(), Beat();
  ChangeClaim change;
  change.id = "b";
  change.memory_bytes = 7 * kGiB;
  EXPECT_EQ(Do(change).refusal->message,
            "memory 7516192768: h:0 has 6442450944 bytes for this claim");
  EXPECT_EQ(core_.Find("b")->ask.memory_bytes, 4 * kGiB);
  change.memory_bytes = 0;
  EXPECT_EQ(Do(change).refusal->message, "h:0 is shared with other claims");
  change.memory_bytes.reset();
  change.share_milli = 1001;
  EXPECT_EQ(Do(change).refusal->code, RefusalCode::kInvalid);
  EXPECT_EQ(State("waits"), ClaimState::kPending);
  change = {};
  change.id = "waits";
  change.memory_bytes = 2 * kGiB;
  EXPECT_FALSE(Do(change).refusal);
  EXPECT_EQ(State("waits"), ClaimState::kReserved);
  Do(ReleaseClaim{"a", "", {}});
  change.id = "a";
  EXPECT_EQ(Do(change).refusal->message, "claim 'a' is releasing");
}

TEST_F(PoolCore, APlaceIsKeptForAClaimThatHasWaitedLong) {
  Request("a", 10), Request("b", 6);
  Beat(1), Beat(1);
  Request("large", 12);
  for (int i = 0; i < 16; ++i) Wait(4000), Beat(1);
  Do(ReleaseClaim{"b", "", {}});
  Beat(1), Beat(1);
  EXPECT_NE(core_.Explain(*core_.Find("large")).why.find("a place on h is kept for it"),
            std::string::npos);
  Request("guest", 4);  // beside 12 of 16: it will be in nobody's way
  EXPECT_EQ(State("guest"), ClaimState::kReserved);
  Request("late", 1);
  EXPECT_EQ(State("late"), ClaimState::kPending);
  EXPECT_NE(core_.Explain(*core_.Find("late")).why.find("kept for claims before it in the queue"),
            std::string::npos);
  Beat(1), Beat(1);
  Do(ReleaseClaim{"a", "", {}});
  Beat(1), Beat(1);
  EXPECT_EQ(State("large"), ClaimState::kReserved);
  EXPECT_EQ(State("late"), ClaimState::kPending);
  Do(ReleaseClaim{"late", "", {}});
}

TEST_F(PoolCore, APlaceIsNoLongerKeptWhenItsClaimIsGone) {
  Request("a", 10);
  Request("large", 12);
  Beat(1), Beat(1);
  for (int i = 0; i < 16; ++i) Wait(4000), Beat(1);
  Request("late", 5);
  EXPECT_EQ(State("late"), ClaimState::kPending);
  Do(ReleaseClaim{"large", "", {}});
  EXPECT_EQ(State("late"), ClaimState::kReserved);
}

TEST_F(PoolCore, WhatIsDecidedIsTheNextAnswerToTheLastReport) {
  Effects asked = Request("c", 4);
  ASSERT_EQ(asked.pushes.count("h"), 1u);
  const Answer& push = asked.pushes.at("h");
  EXPECT_EQ(push.beat, beat_);
  EXPECT_EQ(push.number, 2u);  // the first went out with the report itself
  ASSERT_EQ(push.grants.size(), 1u);
  granted_["h"] = push.grants;
  Effects heard = Beat();
  EXPECT_EQ(State("c"), ClaimState::kBound);
  EXPECT_TRUE(heard.claims.empty());  // no reply waits for the disk
  EXPECT_EQ(heard.notified_claims.count("c"), 1u);
}

TEST_F(PoolCore, UnusedAndIdleClaimsExpire) {
  Request("unused", 4);
  Beat(), Beat();
  for (int i = 0; i < 30; ++i) Wait(4000), Beat();
  EXPECT_EQ(core_.Find("unused")->reason, "never_used");
  Beat(), Beat();
  EXPECT_EQ(State("unused"), ClaimState::kExpired);
  Request("used", 4);
  Beat(), Beat(1);
  for (int i = 0; i < 60; ++i) Wait(4000), Beat(1);
  EXPECT_EQ(State("used"), ClaimState::kActive);
  Beat(0);
  EXPECT_EQ(State("used"), ClaimState::kIdle);
  for (int i = 0; i < 8; ++i) Wait(4000), Beat();
  EXPECT_EQ(core_.Find("used")->reason, "idle");
}

TEST_F(PoolCore, AHostThatRefusesIsNotAskedAgainSoonAndAtLastNotBelieved) {
  auto refuse = [&](const std::string& id) {
    ASSERT_EQ(State(id), ClaimState::kReserved);
    Beat();
    HostReport report;
    report.host = "h";
    report.incarnation = 1;
    report.beat = ++beat_;
    report.gpus = core_.hosts().at("h").gpus;
    ReportedClaim refused;
    refused.claim = id;
    refused.epoch = core_.Find(id)->epoch;
    refused.refused = "device 0: asked too much";
    report.claims.push_back(refused);
    Do(report);
    EXPECT_EQ(State(id), ClaimState::kPending);
  };
  for (const std::string id : {"a", "b", "c"}) {
    Request(id, 4);
    refuse(id);
  }
  EXPECT_TRUE(core_.hosts().at("h").is_cordoned);
  EXPECT_NE(core_.hosts().at("h").reason.find("refused 3 claims"), std::string::npos);
  Do(SetHost{"h", SetHost::Verb::kUncordon, {}});
  EXPECT_EQ(State("a"), ClaimState::kPending);
  Wait(5000), Beat(), Wait(26'000), Beat();
  EXPECT_EQ(State("a"), ClaimState::kReserved);
}

TEST_F(PoolCore, AServerThatFollowsOneThatEndedTakesClaims) {
  Beat();
  is_ending_ = true;
  Beat();
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kDrained);
  EXPECT_EQ(core_.hosts().at("h").reason, "its server is ending");
  Request("a", 2);
  Do(SetHost{"h", SetHost::Verb::kUncordon, {}});
  EXPECT_EQ(State("a"), ClaimState::kPending) << "it is still ending";
  is_ending_ = false;
  Do(HostClosed{"h", incarnation_++});
  Beat();
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kReady);
  EXPECT_EQ(core_.hosts().at("h").reason, "");
  EXPECT_EQ(State("a"), ClaimState::kReserved);
}

TEST_F(PoolCore, ANewServerDoesNotUndoWhatSomebodyAskedFor) {
  Beat();
  Do(SetHost{"h", SetHost::Verb::kDrain, {}});
  is_ending_ = true;
  Beat();
  is_ending_ = false;
  Do(HostClosed{"h", incarnation_++});
  Beat();
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kDrained);
  EXPECT_EQ(core_.hosts().at("h").reason, "asked for");
}

TEST_F(PoolCore, DrainingLetsTheRunningEndAndMovesTheRest) {
  Request("used", 4);
  Beat(), Beat(1);
  ASSERT_EQ(State("used"), ClaimState::kActive);
  Request("waiting", 2);
  Do(SetHost{"h", SetHost::Verb::kDrain, {}});
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kDraining);
  EXPECT_EQ(State("used"), ClaimState::kActive);
  EXPECT_EQ(State("waiting"), ClaimState::kReleasing);  // its host has been told of it
  Beat(1);
  EXPECT_EQ(State("waiting"), ClaimState::kPending);
  Do(ReleaseClaim{"used", "", {}});
  Beat(1), Beat();
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kDrained);
  Do(SetHost{"h", SetHost::Verb::kUncordon, {}});
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kReady);
  EXPECT_EQ(State("waiting"), ClaimState::kReserved);
  EXPECT_EQ(core_.Find("waiting")->epoch, 2u);
}

TEST_F(PoolCore, AClaimOfALostHostEndsWhenTheHostHasSurelyGivenItUp) {
  Request("a", 4);
  Beat(), Beat(1);
  Wait(11'000);
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kSuspect);
  Wait(60'000);
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kLost);
  EXPECT_EQ(State("a"), ClaimState::kActive);
  Wait(OrphanAfter(24 * 3'600'000));
  EXPECT_EQ(State("a"), ClaimState::kFailed);
  EXPECT_EQ(core_.Find("a")->reason, "host_lost");
}

TEST_F(PoolCore, SilenceOfManyHostsAtOnceIsOurs) {
  for (const char* name : {"i", "j", "k"}) Beat(0, name);
  Wait(11'000);
  Wait(60'000);
  EXPECT_EQ(core_.hosts().at("h").state, HostState::kSuspect);
}

TEST_F(PoolCore, ANewControllerGoesOnWithWhatRunsAndExpiresNothingWhileItSettles) {
  Request("a", 4);
  Beat(), Beat(1);
  Request("b", 4);
  Core next;
  next.Load({*core_.Find("a"), *core_.Find("b")}, {core_.hosts().at("h")}, now_);
  next.Apply(Tick{}, now_ + 9000);
  EXPECT_EQ(next.Find("a")->state, ClaimState::kActive);
  EXPECT_EQ(next.hosts().at("h").gpus[0].used_bytes, 8 * kGiB);
  EXPECT_EQ(next.Find("b")->state, ClaimState::kReserved);
  HostReport report;
  report.host = "h";
  report.incarnation = 1;
  report.beat = ++beat_;
  report.gpus = core_.hosts().at("h").gpus;
  ReportedClaim a;
  a.claim = "a";
  a.epoch = 1;
  a.sessions = 1;
  report.claims.push_back(a);
  ReportedClaim unknown = a;
  unknown.claim = "unknown";
  unknown.memory_bytes = kGiB;
  unknown.devices = {0};
  report.claims.push_back(unknown);
  Effects effects = next.Apply(report, now_ + 9500);
  EXPECT_EQ(effects.answer->grants.size(), 3u);
  EXPECT_EQ(next.Find("unknown")->state, ClaimState::kActive);
  EXPECT_EQ(next.hosts().at("h").gpus[0].used_bytes, 9 * kGiB);
  EXPECT_EQ(next.Broken(), "");
}

TEST_F(PoolCore, ASecondServerOfOneNameIsTurnedAway) {
  HostReport other;
  other.host = "h";
  other.incarnation = 2;
  other.beat = 1;
  EXPECT_TRUE(Do(other).refusal);
  Do(HostClosed{"h", 1});
  EXPECT_FALSE(Do(other).refusal);
  EXPECT_TRUE(Beat().refusal);
}

}  // namespace
}  // namespace farcall::pool
