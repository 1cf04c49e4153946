// SPDX-License-Identifier: Apache-2.0
// What swapping answers when it is off, and how an operator's question to park ends, without a
// supervisor.
#include "server/supervisor/sharing/memory_swapping.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/supervisor/options/serve_options.h"
#include "server/worker/worker_process.h"

namespace farcall::server {
namespace {

using quota::kSecond;

constexpr uint64_t kGiB = uint64_t{1} << 30;

class MemorySwappingTest : public testing::Test {
 protected:
  void Start(bool is_on, uint64_t host_bytes = 4 * kGiB) {
    std::optional<SwapOptions> options;
    if (is_on) options = SwapOptions{{kGiB}, {2 * kGiB}, host_bytes, 0};
    SwapScheduler::Ledger ledger;
    ledger.held = [](int, int) { return kGiB / 2; };
    ledger.held_by_all = [](int) { return kGiB / 2; };
    ledger.free = [](int, int) { return kGiB; };
    MemorySwapping::Hooks hooks;
    hooks.scheduler.send = [this](int, const SwapMessage& message) {
      told_to_leave_ += std::holds_alternative<control::SwapOut>(message) ? 1 : 0;
    };
    hooks.scheduler.end = [](int, const std::string&) {};
    hooks.scheduler.moved = [](int, bool, uint64_t, quota::Ns) {};
    hooks.answer = [this](const control::QuotaReply& reply) { answers_.push_back(reply); };
    hooks.parked = [this](const std::string& name) { parked_.push_back(name); };
    swap_ = std::make_unique<MemorySwapping>(options, std::move(ledger), std::move(hooks));
    swap_->Join(1, "a", quota::Priority::kNormal, 0);
  }
  static control::Park Question(const std::string& name) {
    control::Park question{.id = 7};
    question.vgpu = name;
    return question;
  }

  int told_to_leave_ = 0;
  std::vector<control::QuotaReply> answers_;
  std::vector<std::string> parked_;
  std::unique_ptr<MemorySwapping> swap_;
};

TEST_F(MemorySwappingTest, OffEveryChargeHasRoomAndNothingIsTold) {
  Start(false);
  EXPECT_FALSE(swap_->is_on());
  std::string why;
  EXPECT_EQ(swap_->Ask(1, {.id = 1, .bytes = 100 * kGiB}, 0, &why), SwapScheduler::Room::kThere);
  EXPECT_TRUE(swap_->takes_more());
  swap_->OnMessage(1, control::Idle{}, 0);
  swap_->Tick(kSecond);
  EXPECT_EQ(swap_->WakeAt(kSecond), INT64_MAX);
  EXPECT_EQ(swap_->BytesOut(1, 0, 0), 0u);
  nlohmann::json status = {{"devices", {{{"index", 0}}}}};
  const nlohmann::json before = status;
  swap_->PutTotals(&status);
  EXPECT_EQ(status, before);
}

TEST_F(MemorySwappingTest, OffAQuestionToParkIsRefusedWithWhatToDo) {
  Start(false);
  swap_->Park(Question("vgpu-1"), "a", 0);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id, 7u);
  EXPECT_EQ(answers_[0].outcome, ChangeOutcome::kRefused);
  EXPECT_NE(answers_[0].why.str().find("--park-after"), std::string::npos);
}

TEST_F(MemorySwappingTest, AnUnknownVgpuIsNamed) {
  Start(true);
  swap_->Park(Question("nobody"), "", 0);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].outcome, ChangeOutcome::kNoSuchVgpu);
  EXPECT_NE(answers_[0].why.str().find("'nobody'"), std::string::npos);
}

TEST_F(MemorySwappingTest, WhoeverAskedToParkIsAnsweredOnceTheMemoryHasLeft) {
  Start(true);
  swap_->Park(Question("vgpu-1"), "a", 0);
  EXPECT_TRUE(answers_.empty());
  swap_->Tick(1);
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(told_to_leave_, 1);
  control::SwapDone done{.outcome = control::SwapOutcome::kOut};
  swap_->OnMessage(1, done, kSecond);
  swap_->Tick(kSecond);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].outcome, ChangeOutcome::kDone);
  EXPECT_EQ(parked_, (std::vector<std::string>{"vgpu-1"}));
  swap_->Tick(2 * kSecond);
  EXPECT_EQ(answers_.size(), 1u) << "once";
}

TEST_F(MemorySwappingTest, AVgpuThatEndsMeanwhileCountsAsParked) {
  Start(true);
  swap_->Park(Question("vgpu-1"), "a", 0);
  swap_->Leave(1);
  swap_->Tick(1);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].outcome, ChangeOutcome::kDone);
}

TEST_F(MemorySwappingTest, WithoutHostMemoryItStaysAndSaysSo) {
  Start(true, 1);
  swap_->Park(Question("vgpu-1"), "a", 0);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].outcome, ChangeOutcome::kRefused);
}

TEST_F(MemorySwappingTest, TheStatusNamesWhatEachSessionHasOut) {
  Start(true);
  nlohmann::json vgpu = {{"devices", {{{"charged_bytes", kGiB / 2}}}},
                         {"sessions", {{{"number", 1}}}}};
  swap_->PutVgpu({1}, 0, &vgpu);
  EXPECT_EQ(vgpu["sessions"][0]["memory_state"], "resident");
  EXPECT_EQ(vgpu["devices"][0]["swapped_bytes"], 0);
  nlohmann::json status = {{"devices", {{{"index", 0}}}}};
  swap_->PutTotals(&status);
  EXPECT_EQ(status["swap"]["host_bytes"], 4 * kGiB);
}

TEST(SwapOptions, OnNvidiasDriverSomeMemoryIsKeptForWhatNoLedgerSees) {
  ServeOptions options;
  ProbedDevices devices;
  devices.report.devices.resize(1);
  devices.report.devices[0].total_bytes = 80 * kGiB;
  EXPECT_FALSE(SwapOptionsOf(options, devices).has_value());
  options.oversubscribe_milli = 1500;
  ASSERT_TRUE(SwapOptionsOf(options, devices).has_value());
  EXPECT_EQ(SwapOptionsOf(options, devices)->budget_bytes[0], 80 * kGiB);
  EXPECT_EQ(SwapOptionsOf(options, devices)->lent_bytes[0], 120 * kGiB);
  devices.choice.kind = "cuda";
  EXPECT_LT(SwapOptionsOf(options, devices)->budget_bytes[0], 80 * kGiB);
}

}  // namespace
}  // namespace farcall::server
