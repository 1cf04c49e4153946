// SPDX-License-Identifier: Apache-2.0
// Links say nothing while nothing is under way, and still know a lost peer once somebody needs it.
#include <gtest/gtest.h>

#include <thread>

#include "tests/transport/link_harness.h"

namespace farcall::test {
namespace {

constexpr uint32_t kHeartbeatMs = 20, kSilenceMs = 1000, kIdleAfterMs = 200;

void Sleep(uint32_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

class IdleTest : public testing::TestWithParam<std::string> {
 protected:
  static LinkOptions Options() {
    LinkOptions options;
    options.heartbeat_ms = kHeartbeatMs;
    options.silence_ms = kSilenceMs;
    options.idle_after_ms = kIdleAfterMs;
    return options;
  }
  static uint64_t BytesOf(Pair& pair) {
    return pair.client->link->counters().bytes_out + pair.server->link->counters().bytes_out;
  }
  // Until no byte has crossed for many heartbeats.
  static bool FallIdle(Pair& pair) {
    for (Clock::time_point end = In(kLong); Clock::now() < end;) {
      const uint64_t before = BytesOf(pair);
      Sleep(10 * kHeartbeatMs);
      if (BytesOf(pair) == before) return true;
    }
    return false;
  }

  Pair pair{FreshUrl(GetParam()), Options(), Options()};
};

TEST_P(IdleTest, SaysNothingWhileNothingIsUnderWay) {
  ASSERT_TRUE(pair.ok());
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(pair.client->Send(100).ok());
    ASSERT_TRUE(pair.server->Send(100).ok());
    ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == round; }));
    ASSERT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.frames == round; }));
    ASSERT_TRUE(FallIdle(pair));
    EXPECT_EQ(pair.client->link->tail_bytes(), 0u);  // all is acknowledged before
    EXPECT_EQ(pair.server->link->tail_bytes(), 0u);
  }
  EXPECT_EQ(pair.client->recorder.detached + pair.client->recorder.closed, 0);
}

TEST_P(IdleTest, ASenderLearnsThatThePeerIsGone) {
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(FallIdle(pair));
  pair.faults->black_hole = true;
  Sleep(2 * kSilenceMs);
  EXPECT_EQ(pair.client->recorder.detached, 0);  // nobody needs to know
  ASSERT_TRUE(pair.client->Send().ok());
  ASSERT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.detached == 1; }));
  EXPECT_NE(pair.client->recorder.detach_reason.message().find("silent for"), std::string::npos);
  pair.faults->black_hole = false;
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == 1; }));
  EXPECT_EQ(pair.server->recorder.wrong_frames, 0u);
}

TEST_P(IdleTest, WhoAwaitsAnAnswerLearnsThatThePeerIsGone) {
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(FallIdle(pair));
  pair.client->AwaitAnswer();
  Sleep(2 * kSilenceMs);
  EXPECT_EQ(pair.client->recorder.detached, 0);  // the peer answers
  pair.faults->black_hole = true;
  EXPECT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.detached == 1; }));
}

TEST_P(IdleTest, WhoLooksForNewsLearnsThatThePeerIsGone) {
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(FallIdle(pair));
  pair.faults->black_hole = true;
  EXPECT_TRUE(pair.client->recorder.Until([&] {
    pair.client->link->ExpectNews();
    return pair.client->recorder.detached == 1;
  }));
}

// Its reading thread may be in one call for long.
TEST_P(IdleTest, APeerAtWorkSaysThatItLives) {
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(FallIdle(pair));
  std::atomic<bool> done = false;
  pair.server->recorder.OnEachFrame([&](const FrameView&) {
    Sleep(2 * kSilenceMs);
    done = true;
    return Status();
  });
  ASSERT_TRUE(pair.client->Send().ok());
  pair.client->AwaitAnswer();
  ASSERT_TRUE(pair.server->recorder.Until([&] { return done.load(); }));
  EXPECT_EQ(pair.client->recorder.detached, 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, IdleTest, testing::ValuesIn(TransportUrls()),
                         [](const auto& info) { return UrlTestName(info.param); });

}  // namespace
}  // namespace farcall::test
