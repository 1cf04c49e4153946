// SPDX-License-Identifier: Apache-2.0
#include "quota/claim_ledger.h"

#include <gtest/gtest.h>

namespace farcall::quota {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

ClaimGrant Granting(const std::string& name, uint64_t gib, uint64_t epoch = 1) {
  ClaimGrant grant;
  grant.claim = name;
  grant.epoch = epoch;
  grant.devices = {0};
  grant.memory_bytes = gib * kGiB;
  grant.share_milli = 250;
  grant.seats = 2;
  grant.hold_ns = 10 * kSecond;
  return grant;
}

class ClaimLedgerTest : public testing::Test {
 protected:
  std::vector<std::string> Answer(std::vector<ClaimGrant> grants, Ns now, uint64_t term = 1) {
    ledger_.Beat(++beat_, now);
    auto ends = ledger_.Answer(beat_, 1, term, grants, now);
    EXPECT_TRUE(ends.ok()) << ends.status().message();
    return ends.ok() ? *ends : std::vector<std::string>();
  }
  ClaimLedger ledger_{{8 * kGiB}};
  uint64_t beat_ = 0;
};

TEST_F(ClaimLedgerTest, RefusesWhatItsDevicesDoNotHave) {
  Answer({Granting("a", 6), Granting("b", 4), Granting("c", 2)}, 0);
  EXPECT_EQ(ledger_.held().size(), 2u);
  ASSERT_EQ(ledger_.refused().count("b"), 1u);
  EXPECT_EQ(ledger_.refused().at("b").why,
            "device 0: asked 4294967296 bytes, 2147483648 free of 8589934592");
  EXPECT_EQ(ledger_.memory_on(0), 8 * kGiB);
}

TEST_F(ClaimLedgerTest, LendsMemoryMoreThanOnceButNoClaimMoreThanADeviceHas) {
  ClaimLedger ledger({8 * kGiB}, {.oversubscribe_milli = 1500});
  ledger.Beat(1, 0);
  ASSERT_TRUE(ledger
                  .Answer(1, 1, 1,
                          {Granting("a", 6), Granting("b", 9), Granting("c", 6), Granting("d", 1)},
                          0)
                  .ok());
  EXPECT_EQ(ledger.memory_on(0), 12 * kGiB);
  EXPECT_EQ(ledger.held().count("c"), 1u);
  EXPECT_EQ(ledger.refused().at("b").why,
            "device 0: asked 9663676416 bytes, 6442450944 free of 12884901888");
  EXPECT_EQ(ledger.refused().count("d"), 1u);
}

TEST_F(ClaimLedgerTest, AChangeCountsAsTheLargerUntilItIsMadeGoodOrRefused) {
  Answer({Granting("a", 4), Granting("b", 2)}, 0);
  ClaimGrant more = Granting("a", 6), less = Granting("b", 1);
  more.quota_revision = less.quota_revision = 1;
  Answer({more, less}, 0);
  EXPECT_EQ(ledger_.TakeChanges(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(ledger_.TakeChanges().empty());
  EXPECT_EQ(ledger_.memory_on(0), 8 * kGiB);
  Answer({more, less}, 0);  // said again: under way
  EXPECT_TRUE(ledger_.TakeChanges().empty());
  ledger_.FinishChange("a", 1, "");
  ledger_.FinishChange("b", 1, "it holds more");
  EXPECT_EQ(ledger_.held().at("a").grant.memory_bytes, 6 * kGiB);
  EXPECT_EQ(ledger_.held().at("b").grant.memory_bytes, 2 * kGiB);
  EXPECT_EQ(ledger_.held().at("b").change_refused, "it holds more");
  Answer({more, less}, 0);  // what was refused is not tried again under the same number
  EXPECT_TRUE(ledger_.TakeChanges().empty());
  EXPECT_EQ(ledger_.memory_on(0), 8 * kGiB);
}

TEST_F(ClaimLedgerTest, AChangeNeverTakesMoreThanTheDeviceHas) {
  Answer({Granting("a", 4), Granting("b", 2)}, 0);
  ClaimGrant more = Granting("a", 7);
  more.quota_revision = 1;
  Answer({more, Granting("b", 2)}, 0);
  EXPECT_TRUE(ledger_.TakeChanges().empty());
  EXPECT_EQ(ledger_.held().at("a").change_refused,
            "device 0: asked 7516192768 bytes, 6442450944 free of 8589934592");
  more.memory_bytes = 4 * kGiB;
  more.share_milli = 800;
  more.quota_revision = 2;
  Answer({more, Granting("b", 2)}, 0);
  EXPECT_EQ(ledger_.held().at("a").change_refused, "device 0: asked 80%, 75% left");
  more.share_milli = 250;
  more.devices = {0, 0};
  more.quota_revision = 3;
  Answer({more, Granting("b", 2)}, 0);
  EXPECT_EQ(ledger_.held().at("a").change_refused, "a claim keeps its devices in its epoch");
}

TEST_F(ClaimLedgerTest, RefusesMoreOfTheNetworkThanThisHostAllows) {
  ClaimLedger ledger({8 * kGiB}, {.net_ceiling = 100'000'000});
  auto answer = [&](uint64_t beat, uint64_t net, uint64_t quota) {
    ClaimGrant grant = Granting("a", 1);
    grant.net_bytes_per_s = net;
    grant.quota_revision = quota;
    ledger.Beat(beat, 0);
    EXPECT_TRUE(ledger.Answer(beat, 1, 1, {grant}, 0).ok());
  };
  answer(1, 100'000'001, 0);
  EXPECT_EQ(ledger.refused().at("a").why, "network: asked 100000001B/s, at most 100MB/s here");
  answer(2, 1000, 0);
  EXPECT_EQ(ledger.refused().at("a").why, "network: asked 1KB/s, at least 100KB/s is needed");
  answer(3, 100'000'000, 0);
  EXPECT_EQ(ledger.held().at("a").grant.net_bytes_per_s, 100'000'000u);
  answer(4, 200'000'000, 1);
  EXPECT_EQ(ledger.held().at("a").change_refused, "network: asked 200MB/s, at most 100MB/s here");
  answer(5, 0, 2);
  EXPECT_EQ(ledger.TakeChanges(), std::vector<std::string>{"a"});
}

TEST_F(ClaimLedgerTest, AnswersToTheLastReportCountEachOnceAndInOrder) {
  ledger_.Beat(1, 0);
  ledger_.Beat(2, 0);
  EXPECT_EQ(ledger_.Answer(1, 1, 1, {Granting("a", 1)}, 0).status().code(), Code::kInvalid);
  EXPECT_TRUE(ledger_.Answer(2, 2, 1, {Granting("a", 1)}, 0).ok());
  EXPECT_EQ(ledger_.Answer(2, 2, 1, {}, 0).status().code(), Code::kInvalid);
  EXPECT_EQ(ledger_.Answer(2, 1, 1, {}, 0).status().code(), Code::kInvalid);  // overtaken
  EXPECT_EQ(ledger_.held().size(), 1u);
}

TEST_F(ClaimLedgerTest, AnOlderControllerIsNotObeyed) {
  Answer({Granting("a", 1)}, 0, 5);
  ledger_.Beat(++beat_, 0);
  EXPECT_EQ(ledger_.Answer(beat_, 1, 4, {}, 0).status().message(),
            "a controller of term 4 answered; this host has heard 5");
  EXPECT_EQ(ledger_.held().size(), 1u);
}

TEST_F(ClaimLedgerTest, SeatsAreCountedAndEpochsCompared) {
  Answer({Granting("a", 1, 3)}, 0);
  EXPECT_TRUE(ledger_.OpenSeat("a", 3, 0).ok());
  EXPECT_FALSE(ledger_.OpenSeat("a", 2, 0).ok());
  EXPECT_FALSE(ledger_.OpenSeat("b", 3, 0).ok());
  EXPECT_TRUE(ledger_.OpenSeat("a", 3, 0).ok());
  EXPECT_EQ(ledger_.OpenSeat("a", 3, 0).message(), "claim a: all its 2 seat(s) are taken");
  ledger_.CloseSeat("a");
  EXPECT_TRUE(ledger_.OpenSeat("a", 3, 0).ok());
}

TEST_F(ClaimLedgerTest, WhatIsAbsentEndsAndHoldsItsMemoryUntilItsSessionsAreGone) {
  Answer({Granting("a", 6)}, 0);
  ASSERT_TRUE(ledger_.OpenSeat("a", 1, 0).ok());
  EXPECT_EQ(Answer({Granting("b", 6)}, 0), std::vector<std::string>{"a"});
  EXPECT_EQ(ledger_.refused().count("b"), 1u);
  EXPECT_FALSE(ledger_.OpenSeat("a", 1, 0).ok());
  ledger_.CloseSeat("a");
  Answer({Granting("b", 6), Granting("a", 1, 1)}, 0);
  EXPECT_EQ(ledger_.held().count("b"), 1u);
}

TEST_F(ClaimLedgerTest, AnOlderEpochNeverComesBack) {
  Answer({Granting("a", 1, 4)}, 0);
  Answer({}, 0);
  Answer({Granting("a", 1, 3)}, 0);
  EXPECT_EQ(ledger_.refused().count("a"), 1u);
}

TEST_F(ClaimLedgerTest, HoldCountsFromTheReportNotFromItsAnswer) {
  ledger_.Beat(++beat_, 0);
  ASSERT_TRUE(ledger_.Answer(beat_, 1, 1, {Granting("a", 1)}, 9 * kSecond).ok());
  ASSERT_TRUE(ledger_.OpenSeat("a", 1, 9 * kSecond).ok());
  EXPECT_TRUE(ledger_.Expire(9 * kSecond).empty());
  EXPECT_FALSE(ledger_.OpenSeat("a", 1, 10 * kSecond).ok());
  EXPECT_EQ(ledger_.Expire(10 * kSecond), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace farcall::quota
