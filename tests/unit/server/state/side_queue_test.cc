// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/side_queue.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

StreamState Stream(uint64_t key, bool blocking, bool is_default = false) {
  StreamState stream;
  stream.key = key;
  stream.blocking = blocking;
  stream.is_default = is_default;
  return stream;
}

Turn On(const StreamState& stream, std::vector<uint64_t> events = {}) {
  Turn turn;
  turn.touched.streams = {stream.key};
  turn.touched.default_stream = stream.is_default;
  turn.touched.blocking_stream = stream.blocking;
  turn.touched.events = std::move(events);
  return turn;
}

TEST(SideQueueTest, OnlySharedStreamsAndEventsWait) {
  StreamState first = Stream(1, false), second = Stream(2, false);
  SideQueue queue;
  queue.Push(std::vector<std::byte>(16), On(first, {77}));
  EXPECT_TRUE(queue.ahead().Touches(first));
  EXPECT_FALSE(queue.ahead().Touches(second));
  EXPECT_TRUE(queue.ahead().TouchesEvent(77));
  EXPECT_FALSE(queue.ahead().TouchesEvent(78));
}

TEST(SideQueueTest, BlockingStreamsAndTheDefaultOneWaitForEachOther) {
  StreamState blocking = Stream(1, true), other = Stream(2, true), free = Stream(3, false);
  StreamState legacy = Stream(4, true, true);
  SideQueue queue;
  queue.Push(std::vector<std::byte>(16), On(blocking));
  EXPECT_TRUE(queue.ahead().Touches(legacy));
  EXPECT_FALSE(queue.ahead().Touches(other)) << "two blocking streams do not order each other";
  queue.Push(std::vector<std::byte>(16), On(legacy));
  EXPECT_TRUE(queue.ahead().Touches(other));
  EXPECT_FALSE(queue.ahead().Touches(free));
}

TEST(SideQueueTest, WhatIsOrderedWithEverythingHoldsAll) {
  SideQueue queue;
  Turn turn;
  turn.touched.everything = true;
  queue.Push(std::vector<std::byte>(16), std::move(turn));
  EXPECT_TRUE(queue.ahead().Touches(Stream(9, false)));
  EXPECT_TRUE(queue.ahead().TouchesEvent(1));
}

TEST(TurnTest, ARetryForgetsWhatWasNotedAndKeepsWhatWasDone) {
  Turn turn = On(Stream(1, false), {77});
  turn.chunks_sent = 5;
  turn.progress = 9;
  turn.kept = std::make_shared<int>(1);
  turn.blocked = turn.awaits_bytes = true;
  turn.Retry();
  EXPECT_TRUE(turn.touched.empty());
  EXPECT_FALSE(turn.blocked || turn.awaits_bytes);
  EXPECT_EQ(turn.chunks_sent, 5u);
  EXPECT_EQ(turn.progress, 9u);
  EXPECT_NE(turn.kept, nullptr);
  turn.Reset();
  EXPECT_EQ(turn.progress, 0u);
  EXPECT_EQ(turn.kept, nullptr);
}

TEST(SideQueueTest, OffersInOrderAndForgetsWhatIsServed) {
  StreamState first = Stream(1, false), second = Stream(2, false);
  SideQueue queue;
  queue.Push(std::vector<std::byte>(16), On(first));
  queue.Push(std::vector<std::byte>(32), On(second));
  std::vector<size_t> offered;
  EXPECT_TRUE(queue.ServeAll([&](SideQueue::Entry& entry) {
    offered.push_back(entry.bytes.size());
    return entry.bytes.size() == 16 ? 0 : 1;
  }));
  EXPECT_EQ(offered, (std::vector<size_t>{16, 32}));
  EXPECT_EQ(queue.bytes(), 16u);
  EXPECT_TRUE(queue.ahead().Touches(first));
  EXPECT_FALSE(queue.ahead().Touches(second));
  EXPECT_FALSE(queue.ServeAll([](SideQueue::Entry&) { return -1; }));
  EXPECT_TRUE(queue.ServeAll([](SideQueue::Entry&) { return 1; }));
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.ahead().empty());
}

}  // namespace
}  // namespace farcall::server
