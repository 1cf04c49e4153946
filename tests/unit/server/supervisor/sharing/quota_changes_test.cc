// SPDX-License-Identifier: Apache-2.0
// Changes of running quotas, without a supervisor: when they are done, refused, or wait.
#include "server/supervisor/sharing/quota_changes.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr int kWorker = 10;

class QuotaChangesTest : public testing::Test {
 protected:
  QuotaChangesTest() {
    charges_.ledger().Open("one", 0, 100 * kMiB);
    charges_.Join(kWorker, "one");
    EXPECT_TRUE(net_.Join("one", kWorker, 100'000'000, 0).ok());
    charges_.OnMessage(kWorker, control::Charge{.id = 1, .device = 0, .bytes = 50 * kMiB}, now_);
    recalls_ = 0;
  }
  static MemoryCharges::Hooks HooksOfCharges(int* recalls) {
    MemoryCharges::Hooks hooks;
    hooks.send = [recalls](int, const ChargeMessage& message) {
      *recalls += std::holds_alternative<control::RecallCredit>(message) ? 1 : 0;
      return true;
    };
    hooks.room = [](int, const control::Charge&, std::string*) {
      return SwapScheduler::Room::kThere;
    };
    hooks.expect = [](int, int) {};
    hooks.charged = [](int, uint64_t) {};
    hooks.overhead_bytes = [](const std::string&, int) -> uint64_t { return 0; };
    hooks.refused = [](int, const std::string&, uint64_t) {};
    hooks.withdraw = [](int) {};
    hooks.shut_out = [](int, const std::string&) {};
    return hooks;
  }
  QuotaChanges::Hooks Hooks() {
    QuotaChanges::Hooks hooks;
    hooks.runs = [](const std::string& vgpu) { return vgpu == "one"; };
    hooks.ceiling_bytes = [](int) { return 200 * kMiB; };
    hooks.change_compute = [this](const std::string&, const QuotaChange&) { return compute_; };
    hooks.changed = [this](const std::string&, const QuotaChange&) { ++changed_; };
    return hooks;
  }
  void Begin(QuotaChange change, std::string vgpu = "one", bool is_claims = false) {
    outcome_.reset();
    QuotaChanges::Task task;
    task.vgpu = std::move(vgpu);
    task.name = "name";
    task.devices = {0};
    task.is_claims = is_claims;
    task.change = change;
    task.done = [this](ChangeOutcome outcome, const std::string& why) {
      EXPECT_FALSE(outcome_) << "it is over once";
      outcome_ = outcome;
      why_ = why;
    };
    changes_.Begin(std::move(task), now_);
  }
  uint64_t quota_bytes() { return charges_.ledger().usage("one", 0).quota_bytes; }

  quota::Ns now_ = quota::kSecond;
  int recalls_ = 0, changed_ = 0;
  Status compute_;
  std::optional<ChangeOutcome> outcome_;
  std::string why_;
  MemoryCharges charges_{HooksOfCharges(&recalls_)};
  NetScheduler net_{1'000'000'000, [](int, const NetMessage&) {}};
  QuotaChanges changes_{charges_, net_, false, Hooks()};
};

TEST_F(QuotaChangesTest, MemoryThatFitsChangesAtOnce) {
  Begin({.memory_bytes = 60 * kMiB});
  EXPECT_EQ(outcome_, ChangeOutcome::kDone);
  EXPECT_EQ(quota_bytes(), 60 * kMiB);
  EXPECT_EQ(changed_, 1);
}

TEST_F(QuotaChangesTest, LessThanIsChargedWaitsForCredit) {
  Begin({.memory_bytes = 40 * kMiB});
  EXPECT_EQ(outcome_, std::nullopt);
  EXPECT_EQ(recalls_, 1);
  charges_.OnMessage(kWorker, control::Refund{.device = 0, .bytes = 20 * kMiB}, now_);
  changes_.Tick(now_);
  EXPECT_EQ(outcome_, ChangeOutcome::kDone);
  EXPECT_EQ(quota_bytes(), 40 * kMiB);
}

TEST_F(QuotaChangesTest, CreditThatDoesNotComeRefusesTheChange) {
  Begin({.memory_bytes = 40 * kMiB});
  changes_.Tick(now_);
  EXPECT_TRUE(changes_.has_waiting());
  changes_.Tick(now_ + MemoryCharges::kRecallPatience);
  EXPECT_EQ(outcome_, ChangeOutcome::kRefused);
  EXPECT_FALSE(changes_.has_waiting());
  EXPECT_EQ(quota_bytes(), 100 * kMiB);
  EXPECT_EQ(recalls_, 1) << "it is asked for once";
}

TEST_F(QuotaChangesTest, AQuotaHasBoundsThatAClaimsLedgerSetsForClaims) {
  Begin({.memory_bytes = 0});
  EXPECT_EQ(outcome_, ChangeOutcome::kInvalid);
  Begin({.memory_bytes = 300 * kMiB});
  EXPECT_EQ(outcome_, ChangeOutcome::kInvalid);
  Begin({.memory_bytes = 300 * kMiB}, "one", true);
  EXPECT_EQ(outcome_, ChangeOutcome::kDone);
}

TEST_F(QuotaChangesTest, WhatDoesNotRunIsUnknownUnlessItIsAClaim) {
  Begin({.memory_bytes = 60 * kMiB}, "two");
  EXPECT_EQ(outcome_, ChangeOutcome::kNoSuchVgpu);
  Begin({.memory_bytes = 60 * kMiB}, "two", true);
  EXPECT_EQ(outcome_, ChangeOutcome::kDone);
  EXPECT_EQ(changed_, 0);
}

TEST_F(QuotaChangesTest, NothingOfAChangeIsDoneIfAPartOfItIsRefused) {
  compute_ = Status(Code::kRefused, "no share is left");
  Begin({.memory_bytes = 60 * kMiB, .share_milli = 900});
  EXPECT_EQ(outcome_, ChangeOutcome::kRefused);
  EXPECT_EQ(why_, "no share is left");
  EXPECT_EQ(quota_bytes(), 100 * kMiB);
  compute_ = {};
  Begin({.memory_bytes = 60 * kMiB, .net_bytes_per_s = 2'000'000'000});
  EXPECT_EQ(outcome_, ChangeOutcome::kRefused);
  EXPECT_EQ(quota_bytes(), 100 * kMiB);
  EXPECT_EQ(net_.UseOf("one").bytes_per_s, 100'000'000u);
}

TEST_F(QuotaChangesTest, InAPoolOnlyClaimsChange) {
  QuotaChanges in_pool(charges_, net_, true, Hooks());
  std::optional<ChangeOutcome> outcome;
  in_pool.Begin({.vgpu = "one",
                 .name = "one",
                 .devices = {0},
                 .change = {.memory_bytes = 60 * kMiB},
                 .done = [&](ChangeOutcome each, const std::string&) { outcome = each; }},
                now_);
  EXPECT_EQ(outcome, ChangeOutcome::kRefused);
}

}  // namespace
}  // namespace farcall::server
