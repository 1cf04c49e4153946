// SPDX-License-Identifier: Apache-2.0
// Leases among workers: who hears what, vGPUs of several workers, departures, refusals.
#include "server/leases/lease_desk.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farcall::server {
namespace {

using quota::kMillisecond;
using quota::Ns;

class LeaseDeskTest : public testing::Test {
 protected:
  struct Sent {
    int worker;
    ControlType type;
    Ns amount;
  };

  void Hear(int worker, ControlType type, uint64_t a = 0, uint64_t b = 0) {
    ControlMessage message;
    message.type = type;
    message.a = a;
    message.b = b;
    EXPECT_TRUE(desk_.Hear(worker, message, now_));
  }
  std::vector<Sent> Take() { return std::exchange(sent_, {}); }
  std::vector<Sent> TakeLeases() {
    std::vector<Sent> sent = Take();
    std::erase_if(sent, [](const Sent& each) { return each.type != ControlType::kLease; });
    return sent;
  }
  void Join(const char* vgpu, int worker, QuotaRequest request = {}) {
    ASSERT_TRUE(desk_.Join(vgpu, worker, request, now_).ok());
  }

  Ns now_ = 0;
  std::vector<Sent> sent_;
  LeaseDesk desk_{1, {}, [this](int worker, const ControlMessage& message) {
                    sent_.push_back({worker, message.type, static_cast<Ns>(message.a)});
                  }};
};

TEST_F(LeaseDeskTest, LendsToOneAndTellsItWhenAnotherComes) {
  Join("a", 1);
  Join("b", 2);
  Hear(1, ControlType::kWantLease);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, ControlType::kLease);
  Hear(2, ControlType::kWantLease);
  sent = Take();
  ASSERT_EQ(sent.size(), 1u) << "the second waits";
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, ControlType::kLeaseLimit);
  Hear(1, ControlType::kLeaseUse, 4 * kMillisecond);
  Hear(1, ControlType::kLeaseDone, 1);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
}

// Its holder is told of lower work too, whose turn the pauses are, but not to go for it.
TEST_F(LeaseDeskTest, TellsAHigherClassThatOthersWait) {
  Join("a", 1, {.priority = 1});
  Join("b", 2, {.priority = 2});
  Hear(1, ControlType::kWantLease);
  Hear(1, ControlType::kLeaseUse, kMillisecond, 3 * kMillisecond);
  Take();
  Hear(2, ControlType::kWantLease);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, ControlType::kLeaseLimit);
  EXPECT_GT(sent[0].amount, quota::kSecond) << "as long as it likes";
}

TEST_F(LeaseDeskTest, AKernelThatDoesNotEndKeepsNobodyOut) {
  Join("a", 1);
  Join("b", 2);
  Hear(1, ControlType::kWantLease);
  Hear(2, ControlType::kWantLease);
  Take();
  Ns wake = desk_.WakeAt(now_);
  EXPECT_LE(wake, now_ + quota::kSecond);
  now_ += quota::kSecond - 1;
  desk_.Tick(now_);
  EXPECT_TRUE(TakeLeases().empty());
  now_ += 1;
  desk_.Tick(now_);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, ControlType::kLeaseLimit);
  EXPECT_EQ(sent[0].amount, 0) << "nothing more may go";
  EXPECT_EQ(sent[1].worker, 2);
  EXPECT_EQ(sent[1].type, ControlType::kLease);
  // It ends after all: what it ran is charged, and it waits its turn.
  Hear(1, ControlType::kLeaseUse, 3 * quota::kSecond);
  Hear(1, ControlType::kLeaseDone, 1);
  EXPECT_TRUE(TakeLeases().empty());
  for (int turn = 0; turn < 5; ++turn) {
    Hear(2, ControlType::kLeaseUse, 4 * kMillisecond);
    Hear(2, ControlType::kLeaseDone, 1);
    sent = TakeLeases();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].worker, 2) << "the other owes three seconds";
  }
  Hear(2, ControlType::kLeaseDone, 0);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
}

TEST_F(LeaseDeskTest, AKernelThatDoesNotEndIsChargedAndIsNoProgress) {
  Join("a", 1);
  Join("b", 2);
  Hear(1, ControlType::kWantLease);
  Hear(2, ControlType::kWantLease);
  Take();
  auto charged = [&] {
    Ns sum = 0;
    for (const quota::VgpuStatus& status : desk_.Statuses(now_)) {
      sum += status.vgpu == "a" ? status.gpu_time_ns : 0;
    }
    return sum;
  };
  for (int i = 1; i <= 10; ++i) {
    EXPECT_TRUE(TakeLeases().empty());
    now_ += 100 * kMillisecond;
    Hear(1, ControlType::kLeaseRuns, 100 * kMillisecond);
    EXPECT_EQ(charged(), i * 100 * kMillisecond) << "while it runs";
    desk_.Tick(now_);
  }
  auto sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2) << "a second without anything done: others go beside it";
}

TEST_F(LeaseDeskTest, WhoIsAloneRunsAsLongAsItLikes) {
  Join("a", 1);
  Join("b", 2);
  Hear(1, ControlType::kWantLease);
  Take();
  now_ += 100 * quota::kSecond;
  desk_.Tick(now_);
  EXPECT_TRUE(Take().empty());
}

// Told to go at once for the higher one, it would have come back with nothing done, for ever.
TEST_F(LeaseDeskTest, LetsALowerClassUseTheLeaseOfItsFloor) {
  Join("a", 1, {.priority = 1});
  Join("b", 2, {.priority = 2});
  Hear(1, ControlType::kWantLease);
  Hear(2, ControlType::kWantLease);
  Hear(1, ControlType::kLeaseUse, 4 * kMillisecond);
  Take();
  now_ += 4 * kMillisecond;
  Hear(1, ControlType::kLeaseDone, 1);
  auto sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].worker, 2) << "its floor is due";
  for (const Sent& each : sent) {
    EXPECT_TRUE(each.type != ControlType::kLeaseLimit || each.amount > 0);
  }
}

TEST_F(LeaseDeskTest, LetsOneAloneGoOn) {
  Join("a", 1);
  Hear(1, ControlType::kWantLease);
  Take();
  Hear(1, ControlType::kLeaseUse, 2 * kMillisecond, kMillisecond);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type, ControlType::kLeaseMore);
}

TEST_F(LeaseDeskTest, GivesTheWorkersOfAVgpuOneLease) {
  Join("a", 1);
  Join("a", 2);
  Join("b", 3);
  Hear(3, ControlType::kWantLease);
  Hear(1, ControlType::kWantLease);
  Hear(2, ControlType::kWantLease);
  Take();
  Hear(3, ControlType::kLeaseUse, 4 * kMillisecond);
  Hear(3, ControlType::kLeaseDone, 1);
  auto sent = TakeLeases();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[1].worker, 2);
  EXPECT_EQ(sent[0].amount, sent[1].amount) << "half of it each";
  Hear(1, ControlType::kLeaseUse, 5 * kMillisecond);
  Hear(1, ControlType::kLeaseDone, 1);
  EXPECT_TRUE(TakeLeases().empty()) << "the other still works";
  Hear(2, ControlType::kLeaseDone, 0);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 3);
}

TEST_F(LeaseDeskTest, GivesOnWhatADeadWorkerHeld) {
  Join("a", 1);
  Join("b", 2);
  Hear(1, ControlType::kWantLease);
  Hear(2, ControlType::kWantLease);
  Take();
  desk_.Leave(1, now_);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
  EXPECT_EQ(desk_.Statuses(now_).size(), 1u);
}

TEST_F(LeaseDeskTest, PromisesNoMoreThanThereIs) {
  Join("a", 1, {.share_milli = 700});
  Status refused = desk_.Join("b", 2, {.share_milli = 400}, now_);
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_EQ(refused.message(), "share: asked 40%, 30% of the device is left");
  EXPECT_TRUE(desk_.shares());
  desk_.Leave(1, now_);
  Join("b", 2, {.share_milli = 400});
}

TEST_F(LeaseDeskTest, ChangesARunningQuotaOrNothing) {
  Join("a", 1, {.share_milli = 300});
  EXPECT_FALSE(desk_.Change("nobody", {}, now_).ok());
  EXPECT_FALSE(desk_.Change("a", {.share_milli = 1500}, now_).ok());
  EXPECT_EQ(desk_.Statuses(now_)[0].quota.share_milli, 300u);
  ASSERT_TRUE(desk_.Change("a", {.limit_milli = 200, .priority = 2}, now_).ok());
  EXPECT_EQ(desk_.Statuses(now_)[0].quota, (quota::ComputeQuota{0, 200, quota::Priority::kLow}));
}

// Half of the time it kept others waiting is charged, whatever it says; and each such turn is half
// as long as the one before.
TEST_F(LeaseDeskTest, AHolderPaysByTheClock) {
  for (Ns says : {Ns{0}, Ns{1}}) {
    Join("a", 1);
    Join("b", 2);
    Ns held = 0, used = 0;
    const Ns begin = now_;
    Hear(1, ControlType::kWantLease);
    Hear(2, ControlType::kWantLease);
    int holder = 1;
    while (now_ - begin < 30 * quota::kSecond) {
      const Ns step = holder == 1 ? 10 * kMillisecond : 4 * kMillisecond;
      now_ += step;
      (holder == 1 ? held : used) += step;
      if (holder == 1) {
        Hear(1, ControlType::kLeaseUse, static_cast<uint64_t>(says));
      } else {
        Hear(2, ControlType::kLeaseUse, 4 * kMillisecond);
        Hear(2, ControlType::kLeaseDone, 1);
      }
      desk_.Tick(now_);
      for (auto told = Take(); !told.empty(); told = Take()) {
        for (const Sent& sent : told) {
          if (sent.type == ControlType::kLease) holder = sent.worker;
          // It asks again at once.
          if (sent.worker == 1 && sent.type == ControlType::kLeaseLimit && sent.amount == 0) {
            Hear(1, ControlType::kLeaseDone, 1);
          }
        }
      }
    }
    EXPECT_GT(used, 9 * quota::kSecond) << "a third of 30 s, but for the first turns";
    desk_.Leave(1, now_);
    desk_.Leave(2, now_);
    Take();
  }
}

TEST_F(LeaseDeskTest, NobodyUsesMoreThanTheTimeThereIs) {
  Join("a", 1);
  now_ += quota::kSecond;
  for (int i = 0; i < 1000; ++i) {
    Hear(1, ControlType::kLeaseUse, ~uint64_t{0});
    Hear(1, ControlType::kLeaseRuns, ~uint64_t{0});
  }
  EXPECT_LE(desk_.Statuses(now_)[0].gpu_time_ns, 2 * quota::kSecond);
}

TEST_F(LeaseDeskTest, TakesNoLiesFromAWorker) {
  Join("a", 1);
  Join("b", 2);
  Hear(7, ControlType::kWantLease);               // nobody
  Hear(1, ControlType::kLeaseDone, 1);            // has none
  Hear(1, ControlType::kLeaseUse, ~uint64_t{0});  // more than there is time
  ControlMessage message;
  message.type = ControlType::kWantLease;
  message.device = 9;
  EXPECT_TRUE(desk_.Hear(1, message, now_));
  Hear(2, ControlType::kWantLease);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
  message.type = ControlType::kCharge;
  EXPECT_FALSE(desk_.Hear(1, message, now_));
}

}  // namespace
}  // namespace farcall::server
