// SPDX-License-Identifier: Apache-2.0
// Network budgets: the supervisor lends, workers' connections take.
#include "server/supervisor/sharing/net_scheduler.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/worker/connection/net_pacer.h"
#include "transport/channel.h"

namespace farcall::server {
namespace {

using quota::kMillisecond;
using quota::kSecond;
using quota::Ns;

class NetSchedulerTest : public testing::Test {
 protected:
  static control::WantNetBytes Want() { return {}; }
  uint64_t LentTo(int worker) {
    uint64_t bytes = 0;
    for (const auto& [to, message] : sent_)
      if (const auto* lent = std::get_if<control::NetBytes>(&message); to == worker && lent)
        bytes += lent->bytes;
    return bytes;
  }

  std::vector<std::pair<int, NetMessage>> sent_;
  NetScheduler scheduler_{1'000'000'000, [this](int worker, const NetMessage& message) {
                            sent_.emplace_back(worker, message);
                          }};
};

TEST_F(NetSchedulerTest, WhoAsksForNothingGetsTheCeiling) {
  ASSERT_TRUE(scheduler_.Join("a", 1, 0, 0).ok());
  EXPECT_EQ(scheduler_.UseOf("a").bytes_per_s, 1'000'000'000u);
  EXPECT_EQ(scheduler_.Join("b", 2, 2'000'000'000, 0).code(), Code::kRefused);
  EXPECT_EQ(scheduler_.Join("b", 2, 5, 0).code(), Code::kInvalid);
}

TEST_F(NetSchedulerTest, SessionsOfAVgpuShareOneBudget) {
  ASSERT_TRUE(scheduler_.Join("a", 1, 100'000'000, 0).ok());
  ASSERT_TRUE(scheduler_.Join("a", 2, 0, 0).ok());
  ASSERT_TRUE(scheduler_.Join("b", 3, 300'000'000, 0).ok());
  for (Ns now = 0; now < 10 * kSecond; now += kMillisecond) {
    for (int worker : {1, 2, 3}) scheduler_.OnMessage(worker, Want(), now);
    scheduler_.Tick(now);
  }
  EXPECT_NEAR(static_cast<double>(LentTo(1) + LentTo(2)), 1e9, 3e7);
  EXPECT_NEAR(static_cast<double>(LentTo(1)), static_cast<double>(LentTo(2)), 2e6);
  EXPECT_NEAR(static_cast<double>(LentTo(3)), 3e9, 9e7);
}

TEST_F(NetSchedulerTest, AskingTwiceGivesNoSecondPlaceInTheQueue) {
  ASSERT_TRUE(scheduler_.Join("a", 1, 100'000'000, 0).ok());
  ASSERT_TRUE(scheduler_.Join("a", 2, 0, 0).ok());
  for (int i = 0; i < 100; ++i) scheduler_.OnMessage(1, Want(), 0);
  scheduler_.OnMessage(2, Want(), 0);
  scheduler_.Tick(20 * kMillisecond);
  EXPECT_EQ(LentTo(1), LentTo(2));
}

TEST_F(NetSchedulerTest, ChangesWhileItRuns) {
  ASSERT_TRUE(scheduler_.Join("a", 1, 100'000'000, 0).ok());
  ASSERT_TRUE(scheduler_.Change("a", 200'000'000, 0).ok());
  EXPECT_EQ(scheduler_.Change("a", 2'000'000'000, 0).code(), Code::kRefused);
  EXPECT_EQ(scheduler_.UseOf("a").bytes_per_s, 200'000'000u);
  EXPECT_EQ(scheduler_.Change("nobody", 0, 0).code(), Code::kInvalid);
}

TEST_F(NetSchedulerTest, CountsWhatSessionsSayAlsoWhenTheyHaveGone) {
  ASSERT_TRUE(scheduler_.Join("a", 1, 0, 0).ok());
  ASSERT_TRUE(scheduler_.Join("a", 2, 0, 0).ok());
  control::NetUse use{.received_bytes = 10, .sent_bytes = 20};
  scheduler_.OnMessage(1, use, 0);
  use.received_bytes = 5;  // less than before: a lie
  scheduler_.OnMessage(1, use, 0);
  scheduler_.Leave(1);
  use.sent_bytes = 7;
  scheduler_.OnMessage(2, use, 0);
  EXPECT_EQ(scheduler_.UseOf("a").bytes_in, 15u);
  EXPECT_EQ(scheduler_.UseOf("a").bytes_out, 27u);
}

class NetPacerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string url = "inproc://net_pacer_test_" +
                      std::string(testing::UnitTest::GetInstance()->current_test_info()->name());
    auto soon = Clock::now() + std::chrono::seconds(5);
    auto listener = Listen(url);
    ASSERT_TRUE(listener.ok());
    auto near = Dial(url, soon);
    ASSERT_TRUE(near.ok());
    near_ = std::move(*near);
    auto far = (*listener)->Accept(soon);
    ASSERT_TRUE(far.ok());
    far_ = std::move(*far);
  }
  void Limit(bool is_limited) { pacer_.OnMessage(control::NetLimit{.is_limited = is_limited}); }
  void Lend(uint64_t bytes) { pacer_.OnMessage(control::NetBytes{.bytes = bytes}); }
  static size_t Send(Channel& channel, size_t bytes) {
    std::vector<std::byte> data(bytes);
    std::array<std::span<const std::byte>, 1> parts = {data};
    Result<size_t> sent = channel.TrySend(parts);
    return sent.ok() ? *sent : 0;
  }
  bool IsReady() const {
    pollfd fd{pacer_.descriptor(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }

  Ns now_ = kSecond;
  int asked_ = 0;
  NetPacer pacer_{[this](const control::WantNetBytes&) { ++asked_; }, [this] { return now_; }};
  std::unique_ptr<Channel> near_, far_;
};

TEST_F(NetPacerTest, WithoutABudgetAllPassesAndIsCounted) {
  auto lane = NetPacer::Pace(std::move(near_), pacer_, false);
  EXPECT_EQ(Send(*lane, 1000), 1000u);
  std::optional<control::NetUse> use = pacer_.Use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->sent_bytes, 1000u);
  EXPECT_FALSE(pacer_.Use());
  EXPECT_EQ(asked_, 0);
}

TEST_F(NetPacerTest, NoByteMoreThanWasLentInEitherDirection) {
  auto lane = NetPacer::Pace(std::move(near_), pacer_, false);
  Limit(true);
  EXPECT_EQ(asked_, 1);
  EXPECT_FALSE(IsReady());
  EXPECT_EQ(Send(*lane, 1000), 0u);
  Lend(300);
  EXPECT_TRUE(IsReady());
  EXPECT_EQ(Send(*lane, 200), 200u);
  EXPECT_EQ(Send(*far_, 1000), 1000u);
  std::array<std::byte, 1000> into;
  EXPECT_EQ(*lane->TryReceive(into), 100u);
  EXPECT_EQ(*lane->TryReceive(into), 0u);
  EXPECT_FALSE(IsReady());
  EXPECT_EQ(asked_, 2);  // once for each time that nothing was left
  now_ += 40 * kMillisecond;
  Lend(5000);
  EXPECT_EQ(*lane->TryReceive(into), 900u);
  std::optional<control::NetUse> use = pacer_.Use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->waited_ns, static_cast<uint64_t>(40 * kMillisecond));
}

TEST_F(NetPacerTest, TheLogMayBeALittleInDebtAndALaneMayNot) {
  auto log = NetPacer::Pace(std::move(near_), pacer_, true);
  Limit(true);
  EXPECT_EQ(Send(*log, 1000), 1000u);
  EXPECT_EQ(pacer_.MayPass(false), 0u);
  size_t more = 0;
  for (int i = 0; i < 100; ++i) more += Send(*log, 1000);
  EXPECT_EQ(more + 1000, 65536u);
  Lend(1000);  // pays a part of it
  EXPECT_FALSE(IsReady());
  EXPECT_EQ(Send(*log, 5000), 1000u);
}

TEST_F(NetPacerTest, WhoWaitsForTheBudgetHearsTheWakeAndTheEnd) {
  auto lane = NetPacer::Pace(std::move(near_), pacer_, false);
  Limit(true);
  EXPECT_FALSE(lane->WaitWritable(Clock::now()));
  NetPacer other([](const control::WantNetBytes&) {}, [] { return Ns{0}; });
  EXPECT_FALSE(lane->WaitReadable(Clock::time_point::max(), other.descriptor()));
  lane->Close();
  EXPECT_TRUE(lane->WaitReadable(Clock::time_point::max(), -1));
  std::array<std::byte, 1> into;
  EXPECT_FALSE(lane->TryReceive(into).ok());
}

TEST_F(NetPacerTest, ALimitThatIsLiftedLetsAllPass) {
  auto lane = NetPacer::Pace(std::move(near_), pacer_, false);
  Limit(true);
  EXPECT_EQ(Send(*lane, 10), 0u);
  Limit(false);
  EXPECT_TRUE(IsReady());
  EXPECT_EQ(Send(*lane, 1000), 1000u);
}

}  // namespace
}  // namespace farcall::server
