// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/transfers.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace farcall::client {
namespace {

ChunkHeader Chunk(uint64_t transfer, uint64_t seq, uint64_t offset, uint32_t bytes) {
  ChunkHeader header;
  header.transfer = transfer;
  header.seq = seq;
  header.offset = offset;
  header.bytes = bytes;
  return header;
}

struct TransfersTest : testing::Test {
  Transfers transfers;
  std::array<std::byte, 100> memory{};
};

TEST_F(TransfersTest, ChunksLandAtTheirOffsetsAndTheLastOneTells) {
  uint64_t id = transfers.NewId();
  bool landed = false;
  transfers.Expect(id, memory.data(), 100, [&] { landed = true; });
  EXPECT_EQ(transfers.Destination(Chunk(id, 1, 60, 40)).data(), memory.data() + 60);
  transfers.Landed(Chunk(id, 1, 60, 40));
  EXPECT_FALSE(landed);
  EXPECT_TRUE(transfers.AnyInRange(memory.data() + 10, 1));
  transfers.Destination(Chunk(id, 2, 0, 60));
  transfers.Landed(Chunk(id, 2, 0, 60));
  EXPECT_TRUE(landed);
  EXPECT_EQ(transfers.expected(), 0u);
}

TEST_F(TransfersTest, AChunkThatRunsOverOrWasNeverAskedForHasNoPlace) {
  uint64_t id = transfers.NewId();
  transfers.Expect(id, memory.data(), 100);
  EXPECT_TRUE(transfers.Destination(Chunk(id, 1, 61, 40)).empty());
  EXPECT_TRUE(transfers.Destination(Chunk(id, 1, ~0ull, 40)).empty());
  EXPECT_TRUE(transfers.Destination(Chunk(id + 1, 1, 0, 40)).empty());
  EXPECT_TRUE(transfers.Destination(Chunk(0, 1, 0, 40)).empty());
}

TEST_F(TransfersTest, ChunksOfAForgottenTransferGoToASink) {
  uint64_t id = transfers.NewId();
  transfers.Expect(id, memory.data(), 100);
  EXPECT_TRUE(transfers.Forget(id));
  std::span<std::byte> sink = transfers.Destination(Chunk(id, 1, 0, 40));
  ASSERT_EQ(sink.size(), 40u);
  EXPECT_TRUE(sink.data() < memory.data() || sink.data() >= memory.data() + 100);
  transfers.Landed(Chunk(id, 1, 0, 40));
}

TEST_F(TransfersTest, AChunkReadTwiceAfterALostLinkCountsOnce) {
  uint64_t id = transfers.NewId();
  transfers.Expect(id, memory.data(), 100);
  transfers.Destination(Chunk(id, 1, 0, 100));
  transfers.Destination(Chunk(id, 1, 0, 100));
  transfers.Landed(Chunk(id, 1, 0, 100));
  EXPECT_EQ(transfers.expected(), 0u);
}

TEST_F(TransfersTest, ForgettingWaitsForTheChunkThatIsBeingRead) {
  uint64_t id = transfers.NewId();
  transfers.Expect(id, memory.data(), 100);
  std::span<std::byte> place = transfers.Destination(Chunk(id, 1, 0, 40));
  std::thread lane([&] {
    place[0] = std::byte{1};
    transfers.Landed(Chunk(id, 1, 0, 40));
  });
  transfers.Forget(id);
  lane.join();
  EXPECT_EQ(memory[0], std::byte{1});
}

TEST_F(TransfersTest, AFailedRecordForgetsItsTransfer) {
  uint64_t id = transfers.NewId();
  bool told = false;
  transfers.Expect(id, memory.data(), 100, [&] { told = true; });
  transfers.BindSerial(id, 77);
  transfers.ForgetSerial(77);
  EXPECT_TRUE(told);
  EXPECT_EQ(transfers.expected(), 0u);
  transfers.ForgetSerial(77);  // nothing more
}

}  // namespace
}  // namespace farcall::client
