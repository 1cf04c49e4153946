// SPDX-License-Identifier: Apache-2.0
// Leases among workers: who hears what, vGPUs of several workers, departures, refusals.
#include "server/leases/lease_scheduler.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farcall::server {
namespace {

using quota::kMillisecond;
using quota::Ns;

class LeaseSchedulerTest : public testing::Test {
 protected:
  using Type = control::Type;
  struct Sent {
    int worker;
    Type type;
    Ns amount;
  };

  template <typename M>
  void OnMessage(int worker, const M& message) {
    scheduler_.OnMessage(worker, message, now_);
  }
  void Want(int worker) { OnMessage(worker, control::WantLease{}); }
  void Use(int worker, uint64_t used, uint64_t left = 0) {
    OnMessage(worker, control::LeaseUse{.used_ns = used, .left_ns = left});
  }
  void Done(int worker, bool wants_next) {
    OnMessage(worker, control::LeaseDone{.wants_next = wants_next});
  }
  std::vector<Sent> Take() { return std::exchange(sent_, {}); }
  std::vector<Sent> TakeLeases() {
    std::vector<Sent> sent = Take();
    std::erase_if(sent, [](const Sent& each) { return each.type != Type::kLease; });
    return sent;
  }
  void Join(const char* vgpu, int worker, QuotaRequest request = {}) {
    ASSERT_TRUE(scheduler_.Join(vgpu, worker, request, now_).ok());
  }

  Ns now_ = 0;
  std::vector<Sent> sent_;
  LeaseScheduler scheduler_{
      1, {}, [this](int worker, const LeaseMessage& message) {
        const uint64_t amount = std::visit(
            control::Overloaded{[](const control::LeaseLimit& limit) { return limit.left_ns; },
                                [](const auto& lease) { return lease.device_ns; }},
            message);
        sent_.push_back({worker, control::TypeOf(message), static_cast<Ns>(amount)});
      }};
};

TEST_F(LeaseSchedulerTest, LendsToOneAndTellsItWhenAnotherComes) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, Type::kLease);
  Want(2);
  sent = Take();
  ASSERT_EQ(sent.size(), 1u) << "the second waits";
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, Type::kLeaseLimit);
  Use(1, 4 * kMillisecond);
  Done(1, true);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
}

// Its holder is told of lower work too, whose turn the pauses are, but not to go for it.
TEST_F(LeaseSchedulerTest, TellsAHigherClassThatOthersWait) {
  Join("a", 1, {.priority = 1});
  Join("b", 2, {.priority = 2});
  Want(1);
  Use(1, kMillisecond, 3 * kMillisecond);
  Take();
  Want(2);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, Type::kLeaseLimit);
  EXPECT_GT(sent[0].amount, quota::kSecond) << "as long as it likes";
}

TEST_F(LeaseSchedulerTest, AKernelThatDoesNotEndKeepsNobodyOut) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  Want(2);
  Take();
  Ns wake = scheduler_.WakeAt(now_);
  EXPECT_LE(wake, now_ + quota::kSecond);
  now_ += quota::kSecond - 1;
  scheduler_.Tick(now_);
  EXPECT_TRUE(TakeLeases().empty());
  now_ += 1;
  scheduler_.Tick(now_);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[0].type, Type::kLeaseLimit);
  EXPECT_EQ(sent[0].amount, 0) << "nothing more may go";
  EXPECT_EQ(sent[1].worker, 2);
  EXPECT_EQ(sent[1].type, Type::kLease);
  // It ends after all: what it ran is charged, and it waits its turn.
  Use(1, 3 * quota::kSecond);
  Done(1, true);
  EXPECT_TRUE(TakeLeases().empty());
  for (int turn = 0; turn < 5; ++turn) {
    Use(2, 4 * kMillisecond);
    Done(2, true);
    sent = TakeLeases();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].worker, 2) << "the other owes three seconds";
  }
  Done(2, false);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 1);
}

TEST_F(LeaseSchedulerTest, AKernelThatDoesNotEndIsChargedAndIsNoProgress) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  Want(2);
  Take();
  auto charged = [&] {
    Ns sum = 0;
    for (const quota::VgpuStatus& status : scheduler_.Statuses(now_))
      sum += status.vgpu == "a" ? status.gpu_time_ns : 0;
    return sum;
  };
  for (int i = 1; i <= 10; ++i) {
    EXPECT_TRUE(TakeLeases().empty());
    now_ += 100 * kMillisecond;
    OnMessage(1, control::LeaseRuns{.used_ns = 100 * kMillisecond});
    EXPECT_EQ(charged(), i * 100 * kMillisecond) << "while it runs";
    scheduler_.Tick(now_);
  }
  auto sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2) << "a second without anything done: others go beside it";
}

// What cannot be stopped runs beside the others: each vGPU is charged its own time, and the two sum
// to more than the device was busy. Of that the other has far more than its share.
TEST_F(LeaseSchedulerTest, WhoRunsBesideAKernelThatDoesNotEndHasItsShareOfTheDevice) {
  Join("a", 1, {.share_milli = 500});
  Join("b", 2, {.share_milli = 500});
  Want(1);
  Want(2);
  for (int i = 0; i < 10; ++i) {
    now_ += 100 * kMillisecond;
    OnMessage(1, control::LeaseRuns{.used_ns = 100 * kMillisecond});
    scheduler_.Tick(now_);
  }
  ASSERT_EQ(TakeLeases().back().worker, 2);
  const Ns before = scheduler_.UseOf(0, now_).busy_ns;
  // Nine tenths of the time: the rest passes between its pieces.
  for (int i = 1; i <= 1000; ++i) {
    now_ += 10 * kMillisecond;
    if (i % 10 == 0) OnMessage(1, control::LeaseRuns{.used_ns = 100 * kMillisecond});
    Use(2, 9 * kMillisecond);
    scheduler_.Tick(now_);
  }
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, 11 * quota::kSecond) << "each its own";
  EXPECT_EQ(scheduler_.Statuses(now_)[1].gpu_time_ns, 9 * quota::kSecond);
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_ns - before, 10 * quota::kSecond) << "once";
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_milli, 1000u);
  EXPECT_EQ(Take().size(), 1000u) << "its lease goes on: nobody else may have the next";
}

// For ten seconds, worker 1's kernel does not end, and worker 2 has work of 2 ms at a time.
//   Returns  how long worker 2 ran
class LeasesBesideAnEndlessKernel : public LeaseSchedulerTest {
 protected:
  Ns RunBeside() {
    constexpr Ns kPiece = 2 * kMillisecond;
    Want(1);
    OnMessage(2, control::WantLease{.first_clock_ns = static_cast<uint64_t>(kPiece)});
    Ns ran = 0, told_at = now_, left = 0;
    for (const Ns end = now_ + 10 * quota::kSecond; now_ < end; now_ += kPiece) {
      if (now_ - told_at >= 100 * kMillisecond) {
        OnMessage(1, control::LeaseRuns{.used_ns = static_cast<uint64_t>(now_ - told_at)});
        told_at = now_;
      }
      scheduler_.Tick(now_);
      for (const Sent& sent : Take()) {
        const bool grows = sent.type == Type::kLease || sent.type == Type::kLeaseMore;
        left = sent.worker != 2 ? left : grows ? sent.amount : std::min(left, sent.amount);
      }
      if (left > 0) {
        ran += kPiece;
        left -= kPiece;
        Use(2, kPiece, static_cast<uint64_t>(std::max<Ns>(left, 0)));
        if (left <= 0) {
          OnMessage(2, control::LeaseDone{.wants_next = true,
                                          .first_clock_ns = static_cast<uint64_t>(kPiece)});
        }
      }
    }
    return ran;
  }
};

TEST_F(LeasesBesideAnEndlessKernel, EqualsAreKeptOutForASecond) {
  Join("a", 1, {.share_milli = 500});
  Join("b", 2, {.share_milli = 500});
  EXPECT_GE(RunBeside(), 8900 * kMillisecond);
}

TEST_F(LeasesBesideAnEndlessKernel, AShareIsOfTheDeviceWhateverTheOthers) {
  Join("a", 1, {.share_milli = 900});
  Join("b", 2, {.share_milli = 100});
  EXPECT_GE(RunBeside(), 8900 * kMillisecond) << "nobody else could use what it leaves";
}

TEST_F(LeasesBesideAnEndlessKernel, AHigherClassIsKeptOutForASecond) {
  Join("a", 1, {.priority = 2});
  Join("b", 2, {.priority = 1});
  EXPECT_GE(RunBeside(), 8900 * kMillisecond);
}

TEST_F(LeasesBesideAnEndlessKernel, ALimitHolds) {
  Join("a", 1, {.share_milli = 500});
  Join("b", 2, {.limit_milli = 300});
  EXPECT_NEAR(static_cast<double>(RunBeside()), 2.7e9, 0.1e9) << "after the first second";
}

TEST_F(LeasesBesideAnEndlessKernel, ALowerClassHasItsFloor) {
  Join("a", 1, {.priority = 1});
  Join("b", 2, {.priority = 2});
  EXPECT_GE(RunBeside(), 450 * kMillisecond);
}

TEST_F(LeaseSchedulerTest, ADeviceIsBusyForWhatItsVgpusUseInTurns) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  Want(2);
  for (int turn = 0; turn < 10; ++turn) {
    now_ += 5 * kMillisecond;
    Use(1 + turn % 2, 4 * kMillisecond);
    Done(1 + turn % 2, true);
  }
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_ns, 40 * kMillisecond);
  now_ += 10 * quota::kSecond;
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_milli, 0u);
}

// A message that comes late places its piece late, where the next one's is.
TEST_F(LeaseSchedulerTest, MessagesThatComeLateAreNoWorkAtTheSameTime) {
  Join("a", 1);
  Join("a", 2);
  Join("b", 3);
  Want(1);
  Want(3);
  now_ = quota::kSecond;
  for (int i = 1; i <= 100; ++i) {  // without a pause, and every second message 5 ms late
    now_ = quota::kSecond + (i * 10 + i % 2 * 5) * kMillisecond;
    Use(1, 10 * kMillisecond);
  }
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_ns, quota::kSecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, quota::kSecond);
  Use(3, 100 * kMillisecond);
  EXPECT_EQ(scheduler_.UseOf(0, now_).busy_ns, quota::kSecond) << "beside it";
}

// A worker may say what it likes of the lease that it holds: nothing used is no progress, and
// progress without end is bounded by the clock.
TEST_F(LeaseSchedulerTest, NothingUsedIsNoProgress) {
  for (const auto& [used, patience] : {std::pair<uint64_t, Ns>{0, quota::kSecond},
                                       std::pair<uint64_t, Ns>{1, 2 * quota::kSecond}}) {
    LeaseScheduler scheduler(1, {}, [this](int worker, const LeaseMessage& message) {
      sent_.push_back({worker, control::TypeOf(message), 0});
    });
    for (int worker : {1, 2}) {
      ASSERT_TRUE(scheduler.Join(std::to_string(worker), worker, {}, now_).ok());
      scheduler.OnMessage(worker, control::WantLease{}, now_);
    }
    Take();
    Ns waited = 0;
    while (TakeLeases().empty() && waited < 10 * quota::kSecond) {
      scheduler.OnMessage(1, control::LeaseUse{.used_ns = used}, now_);
      now_ += 20 * kMillisecond;
      waited += 20 * kMillisecond;
      scheduler.Tick(now_);
    }
    EXPECT_EQ(waited, patience) << used << " ns at a time";
  }
}

TEST_F(LeaseSchedulerTest, WhoIsAloneRunsAsLongAsItLikes) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  Take();
  now_ += 100 * quota::kSecond;
  scheduler_.Tick(now_);
  EXPECT_TRUE(Take().empty());
}

// Told to go at once for the higher one, it would have come back with nothing done, for ever.
TEST_F(LeaseSchedulerTest, LetsALowerClassUseTheLeaseOfItsFloor) {
  Join("a", 1, {.priority = 1});
  Join("b", 2, {.priority = 2});
  Want(1);
  Want(2);
  Use(1, 4 * kMillisecond);
  Take();
  now_ += 4 * kMillisecond;
  Done(1, true);
  auto sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].worker, 2) << "its floor is due";
  for (const Sent& each : sent) EXPECT_TRUE(each.type != Type::kLeaseLimit || each.amount > 0);
}

TEST_F(LeaseSchedulerTest, LetsOneAloneGoOn) {
  Join("a", 1);
  Want(1);
  Take();
  Use(1, 2 * kMillisecond, kMillisecond);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type, Type::kLeaseMore);
}

TEST_F(LeaseSchedulerTest, GivesTheWorkersOfAVgpuOneLease) {
  Join("a", 1);
  Join("a", 2);
  Join("b", 3);
  Want(3);
  Want(1);
  Want(2);
  Take();
  Use(3, 4 * kMillisecond);
  Done(3, true);
  auto sent = TakeLeases();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].worker, 1);
  EXPECT_EQ(sent[1].worker, 2);
  EXPECT_EQ(sent[0].amount, sent[1].amount) << "half of it each";
  Use(1, 5 * kMillisecond);
  Done(1, true);
  EXPECT_TRUE(TakeLeases().empty()) << "the other still works";
  Done(2, false);
  sent = TakeLeases();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 3);
}

// As on a GPU's meter: what two processes of a vGPU do at the same time is charged once.
TEST_F(LeaseSchedulerTest, ChargesAVgpuForTheTimeInWhichAnyOfItsWorkersRuns) {
  Join("a", 1, {.limit_milli = 300});
  Join("a", 2);
  Join("b", 3);
  Want(1);
  Want(2);
  now_ += 2 * kMillisecond;
  Use(1, 2 * kMillisecond, 4 * kMillisecond);
  Use(2, 2 * kMillisecond, 4 * kMillisecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, 2 * kMillisecond) << "together";
  now_ += 3 * kMillisecond;
  Use(1, 1 * kMillisecond, 4 * kMillisecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, 3 * kMillisecond);
  Use(2, 3 * kMillisecond, 4 * kMillisecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, 5 * kMillisecond) << "one a part of it alone";
  // Another vGPU's time beside it is that one's.
  Use(3, 3 * kMillisecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[0].gpu_time_ns, 5 * kMillisecond);
  EXPECT_EQ(scheduler_.Statuses(now_)[1].gpu_time_ns, 3 * kMillisecond);
}

// Who tells only now and then could not be told apart from the others.
TEST_F(LeaseSchedulerTest, WorkersOfOneVgpuAreNotAlone) {
  std::vector<control::Company> told;
  LeaseScheduler scheduler(1, {}, [&told](int, const LeaseMessage& message) {
    std::visit(control::Overloaded{[](const control::LeaseMore&) {},
                                   [&told](const auto& lease) { told.push_back(lease.company); }},
               message);
  });
  ASSERT_TRUE(scheduler.Join("a", 1, {}, now_).ok());
  scheduler.OnMessage(1, control::WantLease{}, now_);
  ASSERT_EQ(told, (std::vector{control::Company::kNone}));
  ASSERT_TRUE(scheduler.Join("a", 2, {}, now_).ok());
  EXPECT_EQ(told, (std::vector{control::Company::kNone, control::Company::kIdle}));
}

TEST_F(LeaseSchedulerTest, GivesOnWhatADeadWorkerHeld) {
  Join("a", 1);
  Join("b", 2);
  Want(1);
  Want(2);
  Take();
  scheduler_.Leave(1, now_);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
  EXPECT_EQ(scheduler_.Statuses(now_).size(), 1u);
}

TEST_F(LeaseSchedulerTest, PromisesNoMoreThanThereIs) {
  Join("a", 1, {.share_milli = 700});
  Status refused = scheduler_.Join("b", 2, {.share_milli = 400}, now_);
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_EQ(refused.message(), "share: asked 40%, 30% of the device is left");
  EXPECT_TRUE(scheduler_.shares());
  scheduler_.Leave(1, now_);
  Join("b", 2, {.share_milli = 400});
}

TEST_F(LeaseSchedulerTest, ChangesARunningQuotaOrNothing) {
  Join("a", 1, {.share_milli = 300});
  EXPECT_FALSE(scheduler_.Change("nobody", {}, now_).ok());
  EXPECT_FALSE(scheduler_.Change("a", {.share_milli = 1500}, now_).ok());
  EXPECT_EQ(scheduler_.Statuses(now_)[0].quota.share_milli, 300u);
  ASSERT_TRUE(scheduler_.Change("a", {.limit_milli = 200, .priority = 2}, now_).ok());
  EXPECT_EQ(scheduler_.Statuses(now_)[0].quota,
            (quota::ComputeQuota{0, 200, quota::Priority::kLow}));
}

// Half of the time it kept others waiting is charged, whatever it says; and each such turn is half
// as long as the one before.
TEST_F(LeaseSchedulerTest, AHolderPaysByTheClock) {
  for (Ns says : {Ns{0}, Ns{1}}) {
    Join("a", 1);
    Join("b", 2);
    Ns held = 0, used = 0;
    const Ns begin = now_;
    Want(1);
    Want(2);
    int holder = 1;
    while (now_ - begin < 30 * quota::kSecond) {
      const Ns step = holder == 1 ? 10 * kMillisecond : 4 * kMillisecond;
      now_ += step;
      (holder == 1 ? held : used) += step;
      if (holder == 1) {
        Use(1, static_cast<uint64_t>(says));
      } else {
        Use(2, 4 * kMillisecond);
        Done(2, true);
      }
      scheduler_.Tick(now_);
      for (auto told = Take(); !told.empty(); told = Take()) {
        for (const Sent& sent : told) {
          if (sent.type == Type::kLease) holder = sent.worker;
          // It asks again at once.
          if (sent.worker == 1 && sent.type == Type::kLeaseLimit && sent.amount == 0) Done(1, true);
        }
      }
    }
    EXPECT_GT(used, 9 * quota::kSecond) << "a third of 30 s, but for the first turns";
    scheduler_.Leave(1, now_);
    scheduler_.Leave(2, now_);
    Take();
  }
}

TEST_F(LeaseSchedulerTest, NobodyUsesMoreThanTheTimeThereIs) {
  Join("a", 1);
  now_ += quota::kSecond;
  for (int i = 0; i < 1000; ++i) {
    Use(1, ~uint64_t{0});
    OnMessage(1, control::LeaseRuns{.used_ns = ~uint64_t{0}});
  }
  EXPECT_LE(scheduler_.Statuses(now_)[0].gpu_time_ns, 2 * quota::kSecond);
}

TEST_F(LeaseSchedulerTest, TakesNoLiesFromAWorker) {
  Join("a", 1);
  Join("b", 2);
  Want(7);               // nobody
  Done(1, true);         // has none
  Use(1, ~uint64_t{0});  // more than there is time
  OnMessage(1, control::WantLease{.device = 9});
  Want(2);
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 2);
}

}  // namespace
}  // namespace farcall::server
