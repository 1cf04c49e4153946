// SPDX-License-Identifier: Apache-2.0
// Reservations, and claims that begin at a time of day.
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

constexpr int64_t kDay = 1'790'000'000;  // seconds since 1970, at the core's time 0

// The one host's one GPU, and a clock of day.
class PoolReserve : public PoolCore {
 protected:
  PoolReserve() { Turn(0); }
  int64_t Unix() const { return kDay + now_ / 1000 + set_by_; }
  void Turn(Ms by) {
    now_ += by;
    Do(Tick{Unix() * 1000});
    Beat();
    Beat();
  }
  std::optional<Refusal> Reserve(const std::string& name, int64_t begin, int64_t end,
                                 const std::string& project = "") {
    MakeReservation make;
    make.now_unix = Unix();
    make.reservation.name = name;
    if (begin != 0) make.reservation.begin_unix = Unix() + begin;
    make.reservation.end_unix = Unix() + end;
    make.reservation.project = project;
    return Do(make).refusal;
  }
  std::optional<Refusal> Ask(const std::string& id, const std::string& reservation = "",
                             Ms lifetime = 0, int64_t begin = 0) {
    RequestClaim request;
    request.id = id;
    request.now_unix = Unix();
    request.ask.memory_bytes = 4 * kGiB;
    request.ask.reservation = reservation;
    request.ask.lifetime_ms = lifetime;
    if (begin != 0) request.ask.begin_unix = Unix() + begin;
    const std::optional<Refusal> refusal = Do(request).refusal;
    Beat();
    Beat();
    return refusal;
  }
  int64_t set_by_ = 0;
};

TEST_F(PoolReserve, KeepsOthersOffFromItsBeginToItsEnd) {
  ASSERT_FALSE(Reserve("course", 100, 200));
  ASSERT_FALSE(Ask("long"));
  ASSERT_FALSE(Ask("fits", "", 90'000));
  ASSERT_FALSE(Ask("too_long", "", 110'000));
  ASSERT_FALSE(Ask("of_it", "course"));
  EXPECT_EQ(State("fits"), ClaimState::kBound) << "it is over before";
  for (const char* id : {"long", "too_long", "of_it"})
    EXPECT_EQ(State(id), ClaimState::kPending) << id;
  EXPECT_NE(core_.Explain(*core_.Find("long")).why.find("reserved before it would end"),
            std::string::npos);
  EXPECT_NE(core_.Explain(*core_.Find("of_it")).why.find("begins in 100 s"), std::string::npos);
  Turn(100'000);
  EXPECT_EQ(State("of_it"), ClaimState::kBound);
  EXPECT_EQ(State("long"), ClaimState::kPending);
  EXPECT_EQ(State("fits"), ClaimState::kExpired);
  Turn(100'000);
  EXPECT_EQ(State("of_it"), ClaimState::kExpired) << "with its reservation";
  EXPECT_TRUE(core_.reservations().empty());
  EXPECT_EQ(State("long"), ClaimState::kBound);
}

TEST_F(PoolReserve, TakesNoGpuThatAClaimWouldStillHave) {
  ASSERT_FALSE(Ask("endless"));
  std::optional<Refusal> refusal = Reserve("course", 100, 200);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, RefusalCode::kConflict);
  EXPECT_NE(refusal->message.find("1 have claims that do not end before"), std::string::npos);
  Do(ReleaseClaim{"endless", "done", {}});
  Beat(), Beat();
  ASSERT_FALSE(Ask("short", "", 90'000));
  EXPECT_FALSE(Reserve("course", 100, 200));
  // Nor may that one stay longer now.
  ChangeClaim change;
  change.id = "short";
  change.lifetime_ms = 0;
  refusal = Do(change).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->message.find("h:0 is reserved in 100 s"), std::string::npos);
  change.lifetime_ms = 50'000;
  EXPECT_FALSE(Do(change).refusal);
  // Two at one time do not go together, one after the other do.
  EXPECT_EQ(Reserve("other", 150, 250)->code, RefusalCode::kConflict);
  EXPECT_FALSE(Reserve("other", 200, 250));
}

TEST_F(PoolReserve, RefusesTimesThatCannotBe) {
  for (auto [begin, end, field] : {std::tuple(-1, 100, "begin"),
                                   {100, 100, "end"},
                                   {100, 50, "end"},
                                   {0, -5, "end"},
                                   {0, 0, "end"},
                                   {0, 400 * 24 * 3600, "end"}}) {
    const std::optional<Refusal> refusal = Reserve("course", begin, end);
    ASSERT_TRUE(refusal) << begin << " " << end;
    EXPECT_EQ(refusal->code, RefusalCode::kInvalid);
    EXPECT_EQ(refusal->field, field);
  }
  EXPECT_EQ(Ask("a", "", 0, -10)->field, "begin");
  EXPECT_EQ(Ask("a", "nowhere")->field, "reservation");
  EXPECT_EQ(Reserve("course", 10, 20, "nowhere")->field, "project");
}

TEST_F(PoolReserve, IsForItsProjectAlone) {
  SetProject set;
  for (const char* name : {"teaching", "teaching/b"}) {
    set.project.name = name;
    ASSERT_FALSE(Do(set).refusal);
  }
  ASSERT_FALSE(Reserve("course", 0, 100, "teaching"));
  EXPECT_EQ(Ask("a", "course")->code, RefusalCode::kDenied);
  RequestClaim request;
  request.id = "b";
  request.now_unix = Unix();
  request.ask.memory_bytes = kGiB;
  request.ask.reservation = "course";
  request.ask.project = "teaching/b";
  EXPECT_FALSE(Do(request).refusal);
}

TEST_F(PoolReserve, AClaimWaitsForItsBeginAndLivesFromThere) {
  ASSERT_FALSE(Ask("later", "", 60'000, 100));
  EXPECT_EQ(core_.pending(), 0u);
  EXPECT_EQ(core_.Explain(*core_.Find("later")).why, "its begin is in 100 s");
  Turn(99'000);
  EXPECT_EQ(State("later"), ClaimState::kPending);
  Turn(1000);
  EXPECT_EQ(State("later"), ClaimState::kBound);
  Turn(59'000);
  EXPECT_EQ(State("later"), ClaimState::kBound);
  Turn(1000);
  EXPECT_EQ(State("later"), ClaimState::kExpired);
  // One that is released before is in no list any more.
  ASSERT_FALSE(Ask("gone", "", 0, 100));
  Do(ReleaseClaim{"gone", "", {}});
  Turn(200'000);
  EXPECT_EQ(State("gone"), ClaimState::kReleased);
}

// What has begun stays so; what has not begins an hour later, by the local clock.
TEST_F(PoolReserve, TheClockIsSetBackByAnHour) {
  ASSERT_FALSE(Reserve("now", 0, 100));
  ASSERT_FALSE(Ask("a", "now"));
  EXPECT_EQ(State("a"), ClaimState::kBound);
  ASSERT_FALSE(Ask("later", "now", 0, 50));
  set_by_ = -3600;
  Turn(1000);
  EXPECT_EQ(State("a"), ClaimState::kBound);
  EXPECT_TRUE(core_.reservations().at("now").has_begun);
  Turn(100'000);
  EXPECT_EQ(State("a"), ClaimState::kBound) << "its end has not come either";
  EXPECT_EQ(State("later"), ClaimState::kPending);
  set_by_ = 0;
  Turn(0);
  EXPECT_EQ(State("a"), ClaimState::kExpired);
}

TEST_F(PoolReserve, ANewControllerKnowsItAndWaitsForTheTime) {
  ASSERT_FALSE(Reserve("course", 100, 200));
  ASSERT_FALSE(Ask("of_it", "course"));
  ASSERT_FALSE(Ask("later", "", 0, 100));
  Reservation stored = core_.reservations().at("course");
  Core next;
  next.Load({*core_.Find("of_it"), *core_.Find("later")}, {core_.hosts().at("h")}, now_, {}, {},
            {stored});
  EXPECT_EQ(next.Broken(), "");
  HostReport report;
  report.host = "h";
  report.incarnation = 2;
  report.beat = 1;
  report.gpus.resize(1);
  report.gpus[0].memory_bytes = 16 * kGiB;
  next.Apply(report, now_);
  RequestClaim outsider;
  outsider.id = "outsider";
  outsider.ask.memory_bytes = kGiB;
  next.Apply(outsider, now_);
  EXPECT_EQ(next.Find("outsider")->state, ClaimState::kPending) << "nobody has told the time";
  // It is set ahead to the begin.
  next.Apply(Tick{(kDay + now_ / 1000 + 100) * 1000}, now_ + 1000);
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.Find("of_it")->state, ClaimState::kReserved);
  EXPECT_EQ(next.Find("outsider")->state, ClaimState::kPending);
  EXPECT_FALSE(next.Find("later")->is_early);
}

// As a claim that its host gave up, or that left it, waits with the next controller: not for a
// begin that has come.
TEST_F(PoolReserve, WhatHasBegunDoesNotBeginAgainWithTheNextController) {
  ASSERT_FALSE(Ask("later", "", 0, 100));
  Turn(100'000);
  ASSERT_EQ(State("later"), ClaimState::kBound);
  Claim stored = *core_.Find("later");
  stored.state = ClaimState::kPending;
  stored.host.clear();
  stored.devices.clear();
  Core next;
  next.Load({stored}, {}, now_);
  EXPECT_EQ(next.Broken(), "");
  EXPECT_EQ(next.pending(), 1u);
}

TEST_F(PoolReserve, ItsEndIsStoredForClaimsThatLeaveTheirHost) {
  ASSERT_FALSE(Reserve("course", 0, 100));
  RequestClaim request;
  request.id = "of_it";
  request.ask.memory_bytes = kGiB;
  request.ask.reservation = "course";
  Do(request);
  for (int i = 0; i < 2; ++i) {
    Beat();  // it is granted, and not accepted in time: it is to wait for another place
    granted_.clear();
    Wait(30'000);
  }
  ASSERT_EQ(State("of_it"), ClaimState::kReleasing);
  ASSERT_TRUE(core_.Find("of_it")->requeues);
  const Effects ended = Do(EndReservation{"course"});
  EXPECT_FALSE(core_.Find("of_it")->requeues);
  EXPECT_EQ(ended.claims.count("of_it"), 1u);
}

}  // namespace
}  // namespace farcall::pool
