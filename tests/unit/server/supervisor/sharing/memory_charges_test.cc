// SPDX-License-Identifier: Apache-2.0
// Charges of workers, without a supervisor: what they are answered, who is asked for credit, what
// waits.
#include "server/supervisor/sharing/memory_charges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr int kA = 10, kB = 11, kStranger = 12;

class MemoryChargesTest : public testing::Test {
 protected:
  MemoryChargesTest() {
    charges_.ledger().Open("one", 0, 100 * kMiB);
    charges_.Join(kA, "one");
    charges_.Join(kB, "one");
  }

  MemoryCharges::Hooks Hooks() {
    MemoryCharges::Hooks hooks;
    hooks.send = [this](int worker, const ChargeMessage& message) {
      sent_.emplace_back(worker, message);
      return true;
    };
    hooks.shut_out = [this](int worker, const std::string&) { shut_out_.insert(worker); };
    hooks.room = [this](int, const control::Charge&, std::string* why) {
      *why = "no room on the device";
      return room_;
    };
    hooks.withdraw = [this](int worker) { withdrawn_.insert(worker); };
    hooks.expect = [](int, int) {};
    hooks.overhead_bytes = [](const std::string&, int) -> uint64_t { return 7; };
    hooks.charged = [this](int, uint64_t bytes) { charged_bytes_ = bytes; };
    hooks.refused = [this](int, const std::string& why, uint64_t times) {
      refusal_ = why;
      refusals_ = times;
    };
    return hooks;
  }
  void Charge(int worker, uint64_t bytes, int device = 0) {
    charges_.OnMessage(worker, control::Charge{.id = ++id_, .device = device, .bytes = bytes},
                       now_);
  }
  void Unspent(int worker, uint64_t bytes) {
    charges_.OnMessage(worker, control::Unspent{.device = 0, .bytes = bytes}, now_);
  }
  // What the worker was answered since the last time; empty: nothing.
  std::optional<bool> Granted(int worker) {
    std::optional<bool> granted;
    for (const auto& [to, message] : sent_) {
      const auto* reply = std::get_if<control::ChargeReply>(&message);
      if (to == worker && reply != nullptr) granted = reply->is_granted;
    }
    sent_.clear();
    return granted;
  }
  int Recalls(int worker) {
    return static_cast<int>(std::count_if(sent_.begin(), sent_.end(), [worker](const auto& each) {
      return each.first == worker && std::holds_alternative<control::RecallCredit>(each.second);
    }));
  }

  quota::Ns now_ = quota::kSecond;
  uint64_t id_ = 0, charged_bytes_ = 0, refusals_ = 0;
  std::string refusal_;
  SwapScheduler::Room room_ = SwapScheduler::Room::kThere;
  std::vector<std::pair<int, ChargeMessage>> sent_;
  std::set<int> shut_out_, withdrawn_;
  MemoryCharges charges_{Hooks()};
};

TEST_F(MemoryChargesTest, AChargeWithinTheQuotaIsGrantedAtOnce) {
  Charge(kA, 60 * kMiB);
  EXPECT_EQ(Granted(kA), true);
  EXPECT_EQ(charged_bytes_, 60 * kMiB);
  EXPECT_EQ(charges_.charged_bytes(kA, 0), 60 * kMiB);
  EXPECT_EQ(charges_.charged_bytes(kB, 0), 0u);
  charges_.OnMessage(kA, control::Refund{.device = 0, .bytes = 20 * kMiB}, now_);
  EXPECT_EQ(charges_.charged_bytes(kA, 0), 40 * kMiB);
  charges_.Leave(kA);
  EXPECT_EQ(charges_.ledger().charged_on_device(0), 0u);
}

TEST_F(MemoryChargesTest, ANeighbourIsAskedForItsCreditBeforeAnybodyIsRefused) {
  Charge(kB, 80 * kMiB);
  Unspent(kB, 50 * kMiB);
  sent_.clear();
  Charge(kA, 60 * kMiB);
  EXPECT_EQ(Recalls(kB), 1);
  EXPECT_EQ(Recalls(kA), 0) << "nobody is asked for itself";
  EXPECT_EQ(Granted(kA), std::nullopt);
  EXPECT_TRUE(charges_.has_waiting());
  charges_.OnMessage(kB, control::Refund{.device = 0, .bytes = 50 * kMiB}, now_);
  charges_.Tick(now_);
  EXPECT_EQ(Granted(kA), true);
  EXPECT_FALSE(charges_.has_waiting());
}

TEST_F(MemoryChargesTest, WhoeverGivesNothingBackIsAskedAgainAndThenTheChargeIsRefused) {
  Charge(kB, 80 * kMiB);
  Unspent(kB, 50 * kMiB);
  sent_.clear();
  Charge(kA, 60 * kMiB);
  int recalls = 0;
  std::optional<bool> granted;
  while (charges_.has_waiting()) {
    ASSERT_LT(recalls, 10);
    recalls += Recalls(kB);
    sent_.clear();
    now_ += MemoryCharges::kRecallPatience;
    charges_.Tick(now_);
    if (!charges_.has_waiting()) granted = Granted(kA);
  }
  EXPECT_EQ(recalls, 4);
  EXPECT_EQ(granted, false);
  EXPECT_EQ(refusals_, 1u);
  EXPECT_NE(refusal_.find("7 are contexts and machine code"), std::string::npos) << refusal_;
}

TEST_F(MemoryChargesTest, NobodyWaitsForCreditThatANeighbourDoesNotHave) {
  Charge(kB, 80 * kMiB);
  sent_.clear();
  Charge(kA, 60 * kMiB);
  ASSERT_TRUE(charges_.has_waiting());
  now_ += MemoryCharges::kRecallPatience;
  charges_.Tick(now_);
  EXPECT_EQ(Granted(kA), false);
}

TEST_F(MemoryChargesTest, UnspentCreditIsNoMoreThanWhatIsCharged) {
  Charge(kA, 10 * kMiB);
  Unspent(kA, 90 * kMiB);
  EXPECT_EQ(charges_.UnspentOf(kA, 0), 10 * kMiB);
  EXPECT_EQ(charges_.UnspentByOthers(kB, 0), 10 * kMiB);
  EXPECT_EQ(charges_.UnspentByOthers(kA, 0), 0u);
}

TEST_F(MemoryChargesTest, AChargeWaitsForRoomOnTheDeviceAndLeavesTheQueueWithItsWorker) {
  room_ = SwapScheduler::Room::kComes;
  Charge(kA, 10 * kMiB);
  Charge(kB, 10 * kMiB);
  EXPECT_EQ(Granted(kA), std::nullopt);
  charges_.Leave(kB);
  room_ = SwapScheduler::Room::kThere;
  charges_.Tick(now_);
  EXPECT_EQ(Granted(kA), true);
  EXPECT_FALSE(charges_.has_waiting());
}

TEST_F(MemoryChargesTest, ADeviceThatNeverHasRoomIsSaid) {
  room_ = SwapScheduler::Room::kNever;
  Charge(kA, 10 * kMiB);
  EXPECT_EQ(Granted(kA), false);
  EXPECT_EQ(refusal_.find("no room on the device"), 0u) << refusal_;
  Charge(kA, 200 * kMiB);
  EXPECT_EQ(withdrawn_, std::set<int>{kA}) << "its quota refuses it, whatever room there is";
}

TEST_F(MemoryChargesTest, OneWorkerMayNotFillTheQueue) {
  room_ = SwapScheduler::Room::kComes;
  for (int i = 0; i < 64; ++i) Charge(kA, 1);
  EXPECT_TRUE(shut_out_.empty());
  Charge(kB, 1);
  Charge(kA, 1);
  EXPECT_EQ(shut_out_, std::set<int>{kA});
}

TEST_F(MemoryChargesTest, OfAStrangerNothingIsTaken) {
  Charge(kStranger, 1);
  Unspent(kStranger, 1);
  charges_.OnMessage(kStranger, control::Refund{.device = 0, .bytes = 1}, now_);
  charges_.OnMessage(kStranger, control::AskUsage{.id = 1, .device = 0}, now_);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(MemoryChargesTest, TheDriversOwnUseIsChargedAsFarAsItFits) {
  Charge(kA, 90 * kMiB);
  Unspent(kA, 40 * kMiB);
  sent_.clear();
  quota::Charge charge = charges_.ReserveUpTo(kA, 0, 30 * kMiB);
  EXPECT_EQ(charge.bytes(), 10 * kMiB);
  EXPECT_EQ(Recalls(kA), 1) << "its own credit makes room for the rest";
}

}  // namespace
}  // namespace farcall::server
