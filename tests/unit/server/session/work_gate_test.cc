// SPDX-License-Identifier: Apache-2.0
// Which work a session may put on a device, with a real compute gate and no device.
#include "server/session/work_gate.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farcall::server {
namespace {

using quota::kMillisecond;
using quota::Ns;

constexpr uint64_t kKernel = 5;

class WorkGateTest : public testing::Test {
 protected:
  void Share() { compute_.OnMessage(control::Sharing{}); }
  void Lend(Ns amount) {
    compute_.OnMessage(control::Lease{.device_ns = static_cast<uint64_t>(amount),
                                      .company = control::Company::kIdle});
  }
  bool Admit() { return gate_.Admit(0, nullptr, kKernel); }

  Ns now_ = kMillisecond;
  std::vector<GateMessage> told_;
  std::vector<std::function<void()>> fences_;
  DriverApi api_;
  ComputeGate compute_{1,
                       {[this](const GateMessage& message) { told_.push_back(message); }, [] {},
                        [this] { return now_; }, [](int) { return Ns{0}; }}};
  WorkGate gate_{api_, &compute_, nullptr,
                 [this](int, std::function<void()> done) { fences_.push_back(std::move(done)); }};
};

TEST_F(WorkGateTest, IsEngagedOnceDeviceTimeIsShared) {
  EXPECT_FALSE(gate_.engaged());
  EXPECT_EQ(gate_.ServeAt(), ComputeGate::kNever);
  Share();
  EXPECT_TRUE(gate_.engaged());
  WorkGate none(api_, nullptr, nullptr, {});
  EXPECT_FALSE(none.engaged());
  none.Serve();
}

TEST_F(WorkGateTest, WorkGoesUnderALease) {
  Share();
  EXPECT_FALSE(Admit());
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<control::WantLease>(told_[0]));
  Lend(3 * kMillisecond);
  ASSERT_TRUE(Admit());
  gate_.Submitted(0, kKernel);
  gate_.Serve();
  EXPECT_FALSE(fences_.empty()) << "what went is watched";
}

TEST_F(WorkGateTest, WorkThatStalledIsAdmittedAgain) {
  Share();
  Lend(3 * kMillisecond);
  ASSERT_TRUE(Admit());
  gate_.Stalled(0);
  gate_.Serve();
  EXPECT_TRUE(fences_.empty()) << "nothing went";
  EXPECT_TRUE(Admit());
}

TEST_F(WorkGateTest, NothingIsAdmittedBesideSlowWork) {
  Share();
  Lend(3 * kMillisecond);
  ASSERT_TRUE(Admit());
  const std::shared_ptr<WorkGate::SlowWork> slow = gate_.StartSlow(0, kKernel);
  EXPECT_FALSE(Admit());
  gate_.Serve();
  EXPECT_TRUE(fences_.empty()) << "its batch is open until it has ended";
  slow->ended.store(true);
  gate_.Serve();
  EXPECT_FALSE(fences_.empty());
}

}  // namespace
}  // namespace farcall::server
