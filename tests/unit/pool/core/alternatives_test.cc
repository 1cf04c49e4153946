// SPDX-License-Identifier: Apache-2.0
// Claims with alternatives: the first that can be placed is taken.
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolAlternatives : public PoolCore {
 protected:
  // So many GiB, or else so many.
  Effects Ask(const std::string& id, std::vector<Size> sizes, const std::string& project = "") {
    RequestClaim request;
    request.id = id;
    request.ask.sizes = std::move(sizes);
    request.ask.project = project;
    request.idempotency_key = id;
    return Do(request);
  }
  static Size Of(uint64_t gib, uint32_t count = 1) { return {count, gib * kGiB, 0, ""}; }
  const Claim& At(const std::string& id) { return *core_.Find(id); }
};

TEST_F(PoolAlternatives, TheFirstThatFitsIsTaken) {
  Ask("a", {Of(32), Of(12), Of(4)});
  EXPECT_EQ(State("a"), ClaimState::kReserved);
  EXPECT_EQ(At("a").ask.choice, 1u);
  EXPECT_EQ(At("a").memory_bytes, 12 * kGiB);
  Ask("b", {Of(32), Of(12), Of(4)});
  EXPECT_EQ(At("b").ask.choice, 2u);
  EXPECT_EQ(core_.FindProject("default")->used.memory_bytes, 16 * kGiB);  // what is bound
}

TEST_F(PoolAlternatives, EachIsExplained) {
  Ask("a", {Of(16)});
  Ask("b", {Of(32), Of(2)});
  const Explanation told = core_.Explain(At("b"));
  ASSERT_EQ(told.alternatives.size(), 2u);
  EXPECT_FALSE(told.alternatives[0].could_ever_fit);
  EXPECT_TRUE(told.alternatives[1].could_ever_fit);
  EXPECT_FALSE(told.alternatives[1].fits_now);
  EXPECT_TRUE(told.pass.could_ever_fit);
  EXPECT_NE(told.alternatives[0].why.find("asks 32.0 GiB"), std::string::npos);
  EXPECT_NE(told.alternatives[1].why.find("asks 2.0 GiB"), std::string::npos);
}

TEST_F(PoolAlternatives, ALimitRulesOutTheOneThatExceedsIt) {
  SetProject set;
  set.project.name = "p";
  set.project.limit.memory_bytes = 8 * kGiB;
  Do(set);
  Ask("a", {Of(12), Of(6)}, "p");
  EXPECT_EQ(At("a").ask.choice, 1u);
  Ask("b", {Of(12), Of(6)}, "p");
  EXPECT_EQ(State("b"), ClaimState::kPending);
  for (const Explanation::Alternative& one : core_.Explain(At("b")).alternatives)
    EXPECT_EQ(one.limit, "the limit of project 'p' on memory");
}

TEST_F(PoolAlternatives, WhoIsQueuedAgainWaitsForTheFirstAgain) {
  full_for_ = {"a"};
  Ask("a", {Of(32), Of(12)});
  EXPECT_EQ(At("a").ask.choice, 1u);
  Beat(), Beat();  // its host refuses it
  EXPECT_EQ(State("a"), ClaimState::kPending);
  EXPECT_EQ(At("a").ask.choice, 0u);
  EXPECT_EQ(At("a").ask.memory_bytes, 32 * kGiB);
}

TEST_F(PoolAlternatives, APlaceIsKeptForOneThatCanBe) {
  Ask("a", {Of(10)});
  Beat(1), Beat(1);
  Ask("b", {Of(32), Of(12)});
  for (int i = 0; i < 8; ++i) Wait(9000), Beat(1);
  Wait(9000);
  EXPECT_TRUE(core_.IsKeptFor(At("b")));
  EXPECT_EQ(At("b").ask.choice, 1u);
  Do(ReleaseClaim{"a", "asked for", {}});
  Beat(), Beat();
  EXPECT_EQ(At("b").host, "h");
  EXPECT_EQ(At("b").memory_bytes, 12 * kGiB);
}

TEST_F(PoolAlternatives, OthersLeaveForTheFirstForWhichTheyMay) {
  RequestClaim low;
  low.id = "low";
  low.ask.memory_bytes = 16 * kGiB;
  low.ask.preemptible = true;
  Do(low);
  Beat(1), Beat(1);
  for (int i = 0; i < 3; ++i) Wait(30'000), Beat(1);
  RequestClaim high;
  high.id = "high";
  high.ask.queue_priority = 1;
  high.ask.sizes = {Of(32), Of(12)};
  Do(high);
  EXPECT_EQ(State("low"), ClaimState::kPreempting);
  EXPECT_EQ(At("high").ask.choice, 1u);
}

TEST_F(PoolAlternatives, TheSameRequestIsOneClaimWhicheverWasTaken) {
  Ask("a", {Of(32), Of(12)});
  RequestClaim again;
  again.id = "b";
  again.idempotency_key = "a";
  again.ask.sizes = {Of(32), Of(12)};
  EXPECT_EQ(Do(again).claim, "a");
  again.ask.sizes = {Of(32), Of(11)};
  EXPECT_EQ(Do(again).refusal->code, RefusalCode::kConflict);
}

TEST_F(PoolAlternatives, ChangedItIsWhatItIsChangedTo) {
  Ask("a", {Of(32), Of(12)});
  Beat(), Beat();
  ChangeClaim change;
  change.id = "a";
  change.memory_bytes = 8 * kGiB;
  EXPECT_FALSE(Do(change).refusal);
  Beat(), Beat();
  EXPECT_EQ(At("a").memory_bytes, 8 * kGiB);
  EXPECT_TRUE(At("a").ask.sizes.empty());
  Ask("b", {Of(32), Of(16)});
  change.id = "b";
  EXPECT_TRUE(Do(change).refusal);
}

TEST_F(PoolAlternatives, AGangsMembersHaveTheSame) {
  Beat(0, "k");
  RequestClaim request;
  request.id = "g";
  request.members = 2;
  request.ask.sizes = {Of(32), Of(12), Of(2)};
  Do(request);
  for (const Claim* member : core_.FindGang("g")) {
    EXPECT_EQ(member->state, ClaimState::kReserved);
    EXPECT_EQ(member->ask.choice, 1u);
  }
}

TEST_F(PoolAlternatives, TheyAreBoundedAndEachHasToBePossible) {
  EXPECT_EQ(Ask("a", std::vector<Size>(9, Of(1))).refusal->field, "alternatives");
  Size wrong = Of(1);
  wrong.count = 0;
  EXPECT_EQ(Ask("b", {Of(1), wrong}).refusal->message, "alternative 1: count 0: 1 to 64");
}

TEST_F(PoolAlternatives, APlanTellsWhichItWouldBe) {
  ::farcall::pool::Ask ask;
  ask.sizes = {Of(32), Of(12)};
  std::optional<GangPlaces> places;
  const Explanation told = core_.Plan(ask, 0, &places);
  ASSERT_TRUE(places);
  EXPECT_EQ(told.choice, 1u);
  EXPECT_FALSE(told.alternatives[0].fits_now);
  EXPECT_TRUE(told.alternatives[1].fits_now);
}

}  // namespace
}  // namespace farcall::pool
