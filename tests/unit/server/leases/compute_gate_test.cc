// SPDX-License-Identifier: Apache-2.0
// The worker's gate: what passes, what is told, when a lease goes back.
#include "server/leases/compute_gate.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farcall::server {
namespace {

using quota::kMillisecond;
using quota::Ns;

class ComputeGateTest : public testing::Test {
 protected:
  using Company = control::Company;
  void Share() { gate_.OnMessage(control::Sharing{}); }
  void Lend(Ns amount, Company company) {
    gate_.OnMessage(control::Lease{.device_ns = static_cast<uint64_t>(amount), .company = company});
  }
  void Lend(Ns amount, bool others = false) {
    Lend(amount, others ? Company::kWaiting : Company::kIdle);
  }
  void LendMore(Ns amount) {
    gate_.OnMessage(control::LeaseMore{.device_ns = static_cast<uint64_t>(amount)});
  }
  void Limit(Ns amount) {
    gate_.OnMessage(control::LeaseLimit{.left_ns = static_cast<uint64_t>(amount),
                                        .company = Company::kWaiting});
  }
  void Serve() {
    gate_.Serve([this](int, std::function<void()> done) { fences_.push_back(std::move(done)); });
  }
  // All that was submitted has run.
  void Run(Ns busy) {
    used_ += busy;
    now_ += busy;
    for (auto& done : std::exchange(fences_, {})) done();
  }
  // One launch of a kernel that takes a millisecond: let through, or not.
  bool Launch() {
    if (!gate_.Admit(0, 5)) return false;
    if (gate_.Submitted(0, 5)) Serve();
    return true;
  }
  std::vector<GateMessage> Take() { return std::exchange(told_, {}); }
  // The message, which is one of these; else the test fails, and it is empty.
  template <typename M>
  static M As(const GateMessage& message) {
    const M* found = std::get_if<M>(&message);
    EXPECT_NE(found, nullptr) << "alternative " << message.index();
    return found == nullptr ? M{} : *found;
  }

  Ns now_ = kMillisecond, used_ = 0;
  int wakes_ = 0;
  std::vector<GateMessage> told_;
  std::vector<std::function<void()>> fences_;
  ComputeGate gate_{1,
                    {[this](const GateMessage& message) { told_.push_back(message); },
                     [this] { ++wakes_; }, [this] { return now_; }, [this](int) { return used_; }}};
};

TEST_F(ComputeGateTest, IsOpenUntilThereIsSharing) {
  EXPECT_FALSE(gate_.engaged());
  Share();
  EXPECT_TRUE(gate_.engaged());
}

TEST_F(ComputeGateTest, AsksOnceAndPassesUnderTheLease) {
  Share();
  EXPECT_FALSE(Launch());
  EXPECT_FALSE(Launch());
  auto told = Take();
  ASSERT_EQ(told.size(), 1u);
  As<control::WantLease>(told[0]);
  Lend(3 * kMillisecond);
  EXPECT_EQ(wakes_, 1);
  EXPECT_TRUE(Launch());
  EXPECT_FALSE(Launch()) << "what the first costs is not known yet";
  Run(kMillisecond);
  told = Take();
  ASSERT_EQ(told.size(), 1u);
  const auto use = As<control::LeaseUse>(told[0]);
  EXPECT_EQ(use.used_ns, static_cast<uint64_t>(kMillisecond));
  EXPECT_EQ(use.left_ns, static_cast<uint64_t>(2 * kMillisecond));
  EXPECT_TRUE(Launch());
}

TEST_F(ComputeGateTest, GivesASpentLeaseBackOnceAllIsDone) {
  Share();
  Launch();
  Lend(2 * kMillisecond, true);
  EXPECT_TRUE(Launch());
  Run(kMillisecond);
  EXPECT_TRUE(Launch());
  EXPECT_FALSE(Launch());
  Take();
  Serve();
  EXPECT_TRUE(Take().empty()) << "it still runs";
  Run(kMillisecond);
  auto told = Take();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(As<control::LeaseDone>(told[1]).wants_next) << "a record waits";
  EXPECT_FALSE(Launch());
  EXPECT_TRUE(Take().empty()) << "it has asked with that";
}

TEST_F(ComputeGateTest, GivesAnIdleLeaseBackWhenOthersWait) {
  Share();
  Launch();
  Lend(4 * kMillisecond);
  EXPECT_TRUE(Launch());
  Run(kMillisecond);
  Take();
  Serve();
  EXPECT_TRUE(Take().empty()) << "nobody else wants it";
  Limit(kMillisecond);
  now_ = gate_.ServeAt();
  ASSERT_NE(now_, ComputeGate::kNever);
  Serve();
  auto told = Take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_FALSE(As<control::LeaseDone>(told[0]).wants_next);
  EXPECT_EQ(gate_.ServeAt(), ComputeGate::kNever);
}

TEST_F(ComputeGateTest, IgnoresMoreOfALeaseThatIsOver) {
  Share();
  Launch();
  LendMore(4 * kMillisecond);
  EXPECT_FALSE(Launch());
}

// A kernel may spin until what is held behind it has run.
TEST_F(ComputeGateTest, LetsAPieceThroughWhenNothingEnds) {
  Share();
  Launch();
  Lend(kMillisecond, true);
  EXPECT_TRUE(Launch());
  EXPECT_FALSE(Launch());
  now_ += 50 * kMillisecond;
  EXPECT_FALSE(Launch());
  now_ = gate_.ServeAt();
  Serve();  // tells of what still runs
  now_ = gate_.ServeAt();
  EXPECT_TRUE(Launch());
  EXPECT_FALSE(Launch()) << "one at a time";
}

TEST_F(ComputeGateTest, TellsByTheClockWhatThePauseOfAnotherHasToHold) {
  Share();
  EXPECT_FALSE(Launch());
  Take();
  Lend(kMillisecond, true);
  EXPECT_TRUE(Launch());
  Serve();
  now_ += kMillisecond;  // it leaves half of the device idle
  Run(kMillisecond);
  EXPECT_FALSE(Launch()) << "the lease was spent";
  auto told = Take();
  ASSERT_FALSE(told.empty());
  const auto want = As<control::WantLease>(told.back());
  EXPECT_EQ(want.first_clock_ns, static_cast<uint64_t>(2 * kMillisecond)) << "its next, at most";
  EXPECT_EQ(want.pace_milli, 2000u);
}

// Waking a thread costs more than all else that a gate does.
TEST_F(ComputeGateTest, WakesNobodyForABatchThatNothingWaitsFor) {
  Share();
  EXPECT_FALSE(Launch());
  Lend(20 * kMillisecond);
  EXPECT_TRUE(Launch());
  Serve();
  Run(kMillisecond);  // and now it is known what it takes
  EXPECT_TRUE(Launch());
  EXPECT_TRUE(Launch()) << "a batch: closed";
  EXPECT_TRUE(Launch());
  wakes_ = 0;
  Run(2 * kMillisecond);
  LendMore(20 * kMillisecond);
  EXPECT_EQ(wakes_, 0) << "one more is in the open batch, none is held";
  EXPECT_TRUE(Launch());
  EXPECT_TRUE(Launch());
  EXPECT_TRUE(Launch());
  EXPECT_FALSE(Launch()) << "more than may be outstanding";
  Run(2 * kMillisecond);
  EXPECT_NE(wakes_, 0) << "for the one that was held";
}

// A message wakes the supervisor; who is alone sends a few.
TEST_F(ComputeGateTest, TellsWhatWasUsedOnceSomebodyIsThereWhomItConcerns) {
  Share();
  EXPECT_FALSE(Launch());
  Lend(20 * kMillisecond, Company::kNone);
  EXPECT_TRUE(Launch());
  Serve();
  Run(kMillisecond);  // and now it is known what it takes
  Take();
  auto batch_under_way = [&](Ns used) {  // one is done, the next has begun
    now_ += 4 * kMillisecond;
    EXPECT_TRUE(Launch());
    now_ += 10 * kMillisecond;  // nothing followed it: a batch of its own
    Serve();
    auto done = std::exchange(fences_, {});
    EXPECT_TRUE(Launch());
    fences_.swap(done);
    Run(used);
  };
  batch_under_way(kMillisecond);
  batch_under_way(kMillisecond);
  EXPECT_TRUE(Take().empty());
  Limit(4 * kMillisecond);
  auto told = Take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(As<control::LeaseUse>(told[0]).used_ns, static_cast<uint64_t>(2 * kMillisecond))
      << "of both";
  batch_under_way(kMillisecond);
  told = Take();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(As<control::LeaseUse>(told[0]).used_ns, static_cast<uint64_t>(kMillisecond))
      << "at once, and nothing twice";
}

TEST_F(ComputeGateTest, TellsOfWhatRunsOnBeforeItEnds) {
  Share();
  EXPECT_FALSE(Launch());
  Lend(3 * kMillisecond);
  EXPECT_TRUE(Launch());
  Serve();
  Take();
  Ns told = 0;
  for (int i = 0; i < 10; ++i) {
    Ns at = gate_.ServeAt();
    ASSERT_LE(at, now_ + 100 * kMillisecond) << "it does not wait for the end";
    used_ += at - now_;
    now_ = at;
    Serve();
    for (const GateMessage& message : Take())
      told += static_cast<Ns>(As<control::LeaseRuns>(message).used_ns);
  }
  EXPECT_EQ(told, used_);
  Run(kMillisecond);
  auto last = Take();
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(As<control::LeaseUse>(last[0]).used_ns, static_cast<uint64_t>(kMillisecond))
      << "nothing is told twice";
}

}  // namespace
}  // namespace farcall::server
