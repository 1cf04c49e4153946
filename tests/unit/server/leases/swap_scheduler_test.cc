// SPDX-License-Identifier: Apache-2.0
// Who is swapped out for whom: sessions that need more than a device, on one whose moves take time.
#include "server/leases/swap_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace farcall::server {
namespace {

using control::SwapOutcome;
using quota::kMillisecond;
using quota::kSecond;
using quota::Ns;
using quota::Priority;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kDevice = 1024 * kMiB;

class SwapSchedulerTest : public testing::Test {
 protected:
  struct Worker {
    uint64_t held = 0, out = 0, quota = 8 * kDevice;
    enum class Moves { kNo, kOut, kIn } moves = Moves::kNo;
    Ns done_at = 0;
    bool is_stubborn = false;  // its work does not end
    bool is_silent = false;    // it does not answer
  };
  using Moves = Worker::Moves;

  void Start(uint64_t host_bytes = 4 * kDevice, Ns park_after = 0, uint64_t lent = 4 * kDevice) {
    SwapOptions options;
    options.budget_bytes = {kDevice};
    options.lent_bytes = {lent};
    options.host_bytes = host_bytes;
    options.park_after_ns = park_after;
    SwapScheduler::Ledger ledger;
    ledger.held = [this](int worker, int) { return workers_[worker].held; };
    ledger.held_by_all = [this](int) {
      uint64_t total = 0;
      for (const auto& [id, worker] : workers_) total += worker.held;
      return total;
    };
    ledger.free = [this](int worker, int) {
      return workers_[worker].quota - workers_[worker].held;
    };
    SwapScheduler::Hooks hooks;
    hooks.send = [this](int id, const SwapMessage& message) {
      Worker& worker = workers_[id];
      EXPECT_EQ(worker.moves, Moves::kNo) << "one move at a time";
      const bool leaves = std::holds_alternative<control::SwapOut>(message);
      worker.moves = leaves ? Moves::kOut : Moves::kIn;
      uint64_t bytes = leaves ? worker.held : worker.out;
      worker.done_at = now_ + static_cast<Ns>(bytes / 10);  // 10 GB/s
    };
    hooks.end = [this](int id, const std::string&) { ended_.push_back(id); };
    hooks.moved = [this](int, bool, uint64_t bytes, Ns took) {
      reported_bytes_ = bytes;
      reported_ns_ = took;
    };
    scheduler_ = std::make_unique<SwapScheduler>(options, ledger, hooks);
  }
  void Join(int id, Priority priority = Priority::kNormal) {
    workers_[id] = {};
    scheduler_->Join(id, "vgpu " + std::to_string(id), priority, now_);
  }
  template <typename M>
  void Say(int id, const M& message) {
    scheduler_->OnMessage(id, message, now_);
  }
  void Idle(int id, bool is_idle) { Say(id, control::Idle{.is_idle = is_idle}); }
  void SayMoved(int id, uint64_t out) { Say(id, control::Moved{.out_bytes = out}); }
  void SayFull(int id, uint64_t bytes) { Say(id, control::DeviceFull{.bytes = bytes}); }
  void SayDone(int id, SwapOutcome outcome, uint64_t took = 0, uint64_t moved = 0) {
    Say(id, control::SwapDone{.outcome = outcome, .took_ns = took, .moved_bytes = moved});
  }
  // True: it was charged.
  bool Take(int id, uint64_t bytes) {
    last_ = scheduler_->Ask(id, 0, bytes, now_, &why_);
    workers_[id].held += last_ == SwapScheduler::Room::kThere ? bytes : 0;
    return last_ == SwapScheduler::Room::kThere;
  }
  void Finish(int id, Worker& worker) {
    bool leaves = std::exchange(worker.moves, Moves::kNo) == Moves::kOut;
    if (leaves && worker.is_stubborn) return SayDone(id, SwapOutcome::kStayed);
    uint64_t moved = leaves ? worker.held : worker.out;
    worker.out = leaves ? worker.held : 0;
    SayMoved(id, worker.out);
    SayDone(id, leaves ? SwapOutcome::kOut : SwapOutcome::kIn, moved / 10, moved);
  }
  void Check() const {
    uint64_t resident = 0, out = 0;
    for (const auto& [id, worker] : workers_) {
      resident += worker.moves == Moves::kIn ? worker.held : worker.held - worker.out;
      out += worker.out;
    }
    ASSERT_LE(resident, kDevice);
    ASSERT_LE(out, scheduler_->options().host_bytes);
  }
  void Run(
      Ns time, const std::function<bool()>& until = [] { return false; }) {
    for (Ns end = now_ + time; now_ < end && !until(); now_ += kMillisecond) {
      for (auto& [id, worker] : workers_)
        if (worker.moves != Moves::kNo && now_ >= worker.done_at && !worker.is_silent)
          Finish(id, worker);
      scheduler_->Tick(now_);
      Check();
    }
  }
  bool IsIn(int id) const {
    const Worker& worker = workers_.at(id);
    return worker.out == 0 && worker.moves == Moves::kNo;
  }

  Ns now_ = kSecond;
  std::map<int, Worker> workers_;
  std::unique_ptr<SwapScheduler> scheduler_;
  SwapScheduler::Room last_ = SwapScheduler::Room::kThere;
  std::string why_;
  std::vector<int> ended_;
  uint64_t reported_bytes_ = 0;
  Ns reported_ns_ = 0;
};

TEST_F(SwapSchedulerTest, WhatFitsIsNeverMoved) {
  Start();
  Join(1);
  Join(2);
  EXPECT_TRUE(Take(1, kDevice / 2));
  EXPECT_TRUE(Take(2, kDevice / 2));
  Run(10 * kSecond);
  EXPECT_TRUE(IsIn(1) && IsIn(2));
  EXPECT_EQ(scheduler_->totals_out().count, 0u);
}

TEST_F(SwapSchedulerTest, AnIdleOneLeavesForOneThatGrows) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  Idle(1, true);
  Run(10 * kSecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  EXPECT_EQ(last_, SwapScheduler::Room::kComes);
  Run(kSecond, [&] { return Take(2, 800 * kMiB); });
  EXPECT_EQ(workers_[2].held, 800 * kMiB);
  EXPECT_EQ(workers_[1].out, 800 * kMiB);
  EXPECT_EQ(scheduler_->Of(1, now_).state, "swapped");
}

TEST_F(SwapSchedulerTest, WhoWorksKeepsItsQuantumThenTheyTakeTurns) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  Run(100 * kMillisecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  Run(500 * kMillisecond);
  EXPECT_TRUE(IsIn(1)) << "its quantum is a second at least";
  Run(30 * kSecond, [&] { return Take(2, 800 * kMiB); });
  ASSERT_EQ(workers_[2].held, 800 * kMiB);
  uint64_t before = scheduler_->totals_in().count;
  for (int turn = 0; turn < 6; ++turn) {
    int waits = IsIn(1) ? 2 : 1;
    Say(waits, control::WantIn{});
    Run(70 * kSecond, [&] { return IsIn(waits); });
    ASSERT_TRUE(IsIn(waits)) << "turn " << turn;
  }
  EXPECT_EQ(scheduler_->totals_in().count - before, 6u);
}

TEST_F(SwapSchedulerTest, AHigherClassIsNotMovedForALowerOne) {
  Start();
  Join(1, Priority::kHigh);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  Idle(1, true);
  Run(60 * kSecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  Run(60 * kSecond);
  EXPECT_TRUE(IsIn(1));
}

TEST_F(SwapSchedulerTest, WhatCanNeverBeIsRefusedAtOnce) {
  Start(kDevice / 2, 0, kDevice + kDevice / 2);
  Join(1);
  Join(2);
  EXPECT_FALSE(Take(1, kDevice + 2 * kMiB));
  EXPECT_EQ(last_, SwapScheduler::Room::kNever);
  EXPECT_NE(why_.find("at once"), std::string::npos) << why_;
  ASSERT_TRUE(Take(1, kDevice));
  EXPECT_FALSE(Take(2, kDevice / 2 + 2 * kMiB));
  EXPECT_EQ(last_, SwapScheduler::Room::kNever);
  EXPECT_NE(why_.find("lends"), std::string::npos) << why_;
}

TEST_F(SwapSchedulerTest, WhereNobodyMayLeaveNobodyWaits) {
  Start(kDevice / 2);
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB)) << "more than the host takes";
  EXPECT_FALSE(Take(2, 400 * kMiB));
  EXPECT_EQ(last_, SwapScheduler::Room::kNever);
  EXPECT_NE(why_.find("at most"), std::string::npos) << why_;
}

TEST_F(SwapSchedulerTest, WhoseWorkDoesNotEndStaysAndIsAskedAgainLater) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  workers_[1].is_stubborn = true;
  Idle(1, true);
  Run(10 * kSecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  Run(3 * kSecond);
  EXPECT_TRUE(IsIn(1));
  workers_[1].is_stubborn = false;
  Run(10 * kSecond, [&] { return Take(2, 800 * kMiB); });
  EXPECT_EQ(workers_[2].held, 800 * kMiB);
}

TEST_F(SwapSchedulerTest, NobodyWaitsForOneThatIsGone) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  Idle(1, true);
  Run(10 * kSecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  scheduler_->Tick(now_);
  ASSERT_EQ(workers_[1].moves, Moves::kOut);
  workers_.erase(1);  // killed amid its move
  scheduler_->Leave(1);
  Run(kSecond, [&] { return Take(2, 800 * kMiB); });
  EXPECT_EQ(workers_[2].held, 800 * kMiB);
  EXPECT_EQ(scheduler_->host_bytes_used(), 0u);
}

TEST_F(SwapSchedulerTest, ParkedOnRequestAndAfterAWhile) {
  Start(4 * kDevice, 5 * kSecond);
  Join(1);
  ASSERT_TRUE(Take(1, 100 * kMiB));
  ASSERT_TRUE(scheduler_->Park("vgpu 1", now_).ok());
  EXPECT_EQ(scheduler_->ParkedYet("vgpu 1"), SwapScheduler::Parked::kPending);
  Run(kSecond);
  EXPECT_EQ(scheduler_->ParkedYet("vgpu 1"), SwapScheduler::Parked::kDone);
  EXPECT_EQ(scheduler_->resident_bytes(0), 0u);
  EXPECT_EQ(scheduler_->Of(1, now_).state, "parked");
  Say(1, control::WantIn{});
  Run(kSecond);
  EXPECT_TRUE(IsIn(1));
  Idle(1, true);
  Run(4 * kSecond);
  EXPECT_TRUE(IsIn(1));
  Run(2 * kSecond);
  EXPECT_EQ(workers_[1].out, 100 * kMiB);
}

TEST_F(SwapSchedulerTest, HostMemoryHasItsLimit) {
  Start(100 * kMiB);
  Join(1);
  ASSERT_TRUE(Take(1, 200 * kMiB));
  Status parked = scheduler_->Park("vgpu 1", now_);
  EXPECT_EQ(parked.code(), Code::kRefused);
  EXPECT_NE(parked.message().find("swap_host_mem"), std::string::npos) << parked.message();
  EXPECT_TRUE(IsIn(1));
}

TEST_F(SwapSchedulerTest, ADeviceThatRefusesHoldsLessThanItSaid) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 500 * kMiB));
  Idle(1, true);
  Run(10 * kSecond);
  ASSERT_TRUE(Take(2, 300 * kMiB));
  workers_[2].held = 0;  // given back
  SayFull(2, 300 * kMiB);
  EXPECT_FALSE(Take(2, 300 * kMiB)) << "there is no room but what others have";
  Run(kSecond, [&] { return Take(2, 300 * kMiB); });
  EXPECT_EQ(workers_[1].out, 500 * kMiB);
}

TEST_F(SwapSchedulerTest, ADeviceIsNotFullByAWordAlone) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 500 * kMiB));
  Idle(1, true);
  Run(10 * kSecond);
  SayFull(2, 300 * kMiB);  // nothing was granted
  EXPECT_TRUE(Take(2, 300 * kMiB));
  SayFull(2, 200 * kMiB);  // that was not granted
  EXPECT_TRUE(Take(2, 2 * kMiB));
  EXPECT_TRUE(Take(1, 200 * kMiB));
  EXPECT_EQ(scheduler_->totals_out().count, 0u);
}

// What it could have had by asking, and no more; and not for ever.
TEST_F(SwapSchedulerTest, ALieAboutTheDeviceTakesNoMoreThanTheQuota) {
  Start();
  Join(1);
  Join(2);
  workers_[2].quota = 64 * kMiB;
  ASSERT_TRUE(Take(1, 800 * kMiB));
  Idle(1, true);
  Run(10 * kSecond);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Take(2, 2 * kMiB));
    workers_[2].held = 0;
    SayFull(2, 2 * kMiB);
  }
  Run(kSecond);
  EXPECT_TRUE(IsIn(1));
  EXPECT_TRUE(Take(1, 100 * kMiB)) << "64 MiB at most are said to be missing";
  EXPECT_EQ(scheduler_->totals_out().count, 0u);
  Run(61 * kSecond);
  EXPECT_TRUE(Take(1, 120 * kMiB));
}

TEST_F(SwapSchedulerTest, WhatNobodyAskedForIsIgnored) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  SayMoved(1, 800 * kMiB);
  SayDone(1, SwapOutcome::kOut, 1, 800 * kMiB);
  EXPECT_EQ(scheduler_->resident_bytes(0), 800 * kMiB);
  EXPECT_EQ(scheduler_->totals_out().count, 0u);
  SayDone(1, SwapOutcome::kNoRoom);
  EXPECT_EQ(scheduler_->Of(1, now_).state, "resident");
}

TEST_F(SwapSchedulerTest, AMoveTakesNoLongerThanTheClockSays) {
  Start();
  Join(1);
  ASSERT_TRUE(Take(1, 100 * kMiB));
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(scheduler_->Park("vgpu 1", now_).ok());
    now_ += 20 * kMillisecond;
    workers_[1].moves = Moves::kNo;
    SayMoved(1, 100 * kMiB);
    SayDone(1, SwapOutcome::kOut, ~uint64_t{0}, ~uint64_t{0});
    EXPECT_EQ(reported_bytes_, 100 * kMiB);
    EXPECT_EQ(reported_ns_, 20 * kMillisecond);
    Say(1, control::WantIn{});
    scheduler_->Tick(now_);
    ASSERT_EQ(workers_[1].moves, Moves::kIn);
    workers_[1].moves = Moves::kNo;
    SayMoved(1, 0);
    SayDone(1, SwapOutcome::kIn, ~uint64_t{0}, 0);
    now_ += kSecond;
    scheduler_->Tick(now_);
  }
  EXPECT_TRUE(scheduler_->takes_more());
}

TEST_F(SwapSchedulerTest, WhoDoesNotMoveIsEnded) {
  Start();
  Join(1);
  Join(2);
  ASSERT_TRUE(Take(1, 800 * kMiB));
  workers_[1].is_silent = true;
  Idle(1, true);
  Run(10 * kSecond);
  EXPECT_FALSE(Take(2, 800 * kMiB));
  Run(50 * kSecond);
  EXPECT_TRUE(ended_.empty());
  Run(20 * kSecond);
  EXPECT_EQ(ended_, std::vector<int>{1});
}

// Sessions that work, pause, grow, shrink, die: the device and the host are never over, and nobody
// waits for ever.
TEST_F(SwapSchedulerTest, RandomSessionsAllGetTheirTurn) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    workers_.clear();
    Start(8 * kDevice, random() % 2 == 0 ? 0 : 3 * kSecond, 8 * kDevice);
    std::map<int, Ns> waits_since;
    int last = 0;
    for (int i = 0; i < 4; ++i) Join(++last);
    for (int step = 0; step < 400; ++step) {
      int id = std::next(workers_.begin(), random() % workers_.size())->first;
      Worker& worker = workers_[id];
      bool is_out = worker.out != 0 && worker.moves == Moves::kNo;
      switch (random() % 6) {
        case 0:
          if (worker.held < 700 * kMiB) Take(id, (random() % 150 + 1) * 2 * kMiB);
          break;
        case 1:
          if (IsIn(id)) worker.held -= std::min<uint64_t>(worker.held, (random() % 100) * 2 * kMiB);
          break;
        case 2:
          if (is_out) {
            Say(id, control::WantIn{});
            waits_since.try_emplace(id, now_);
          }
          break;
        case 3:
          if (random() % 8 == 0) {
            scheduler_->Withdraw(id);
            scheduler_->Leave(id);
            workers_.erase(id);
            waits_since.erase(id);
            Join(++last);
          }
          break;
        default:
          Idle(id, random() % 2 != 0);
      }
      Run((random() % 500) * kMillisecond);
      if (HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
      for (auto wait = waits_since.begin(); wait != waits_since.end();) {
        ASSERT_LT(now_ - wait->second, 240 * kSecond)
            << "seed " << seed << " worker " << wait->first;
        wait = IsIn(wait->first) ? waits_since.erase(wait) : std::next(wait);
      }
      for (auto& [other, state] : workers_) scheduler_->Withdraw(other);
    }
  }
}

}  // namespace
}  // namespace farcall::server
