// SPDX-License-Identifier: Apache-2.0
// Chunks of uploads: coverage, lies about it, reuse, back-pressure.
#include "server/state/queues/landing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace farcall::server {
namespace {

constexpr uint32_t kChunk = kMaxChunkBytes;

class LandingTest : public ::testing::Test {
 protected:
  ChunkHeader Header(uint64_t transfer, uint64_t offset, uint32_t bytes) {
    ChunkHeader header;
    header.seq = ++seq_;
    header.transfer = transfer;
    header.offset = offset;
    header.bytes = bytes;
    return header;
  }
  bool Land(uint64_t transfer, uint64_t offset, uint32_t bytes, int fill = 0) {
    ChunkHeader header = Header(transfer, offset, bytes);
    std::span<std::byte> into = landing_.Destination(header);
    if (into.size() != bytes) return false;
    std::memset(into.data(), fill, into.size());
    landing_.Landed(header);
    return true;
  }
  DriverApi api_;
  static constexpr size_t kHeapBytes = (4u << 20) + (4u << 10);  // four chunks and what they cost
  uint64_t used_bytes_ = 0;
  Landing landing_{api_, 8, kHeapBytes, [] {}, [this](uint64_t bytes) { used_bytes_ = bytes; }};
  uint64_t seq_ = 0;
};

TEST_F(LandingTest, WaitsForGapsUntilTheyAreLies) {
  ASSERT_TRUE(Land(1, 0, 1000));
  ASSERT_TRUE(Land(1, 2000, 1000));
  EXPECT_EQ(landing_.Check(1, 0, 1000, 2), Landing::Cover::kWhole);
  EXPECT_EQ(landing_.Check(1, 0, 3000, 3), Landing::Cover::kAwaited);
  EXPECT_EQ(landing_.Check(1, 0, 3000, 2), Landing::Cover::kViolation)
      << "all that was sent is here";
  ASSERT_TRUE(Land(1, 1000, 1000));
  EXPECT_EQ(landing_.Check(1, 0, 3000, 3), Landing::Cover::kWhole);
  EXPECT_EQ(landing_.Check(1, 500, 2000, 3), Landing::Cover::kWhole);
  EXPECT_EQ(landing_.Check(1, ~uint64_t{0}, 2, 0), Landing::Cover::kViolation);
}

TEST_F(LandingTest, CountsOnlyWhatLandedInOrder) {
  ChunkHeader first = Header(1, 0, 100), second = Header(1, 100, 100);
  ASSERT_FALSE(landing_.Destination(first).empty());
  ASSERT_FALSE(landing_.Destination(second).empty());
  landing_.Landed(second);
  EXPECT_EQ(landing_.Check(1, 0, 200, 1), Landing::Cover::kAwaited)
      << "the first is still on its lane";
  landing_.Landed(first);
  EXPECT_EQ(landing_.Check(1, 0, 200, 2), Landing::Cover::kWhole);
}

TEST_F(LandingTest, LetsBytesBeUsedOnce) {
  ASSERT_TRUE(Land(1, 0, kChunk, 7));
  std::vector<Landing::Piece> pieces;
  ASSERT_TRUE(landing_.Claim(1, 0, kChunk / 2, true, &pieces));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].bytes.size(), kChunk / 2);
  EXPECT_EQ(pieces[0].bytes[0], std::byte{7});
  EXPECT_FALSE(landing_.Claim(1, 0, kChunk, true, &pieces));
  ASSERT_TRUE(landing_.Claim(1, kChunk / 2, kChunk / 2, true, &pieces));
  EXPECT_EQ(landing_.slots().taken(), 1u);
  landing_.Release(1, kChunk / 2, kChunk / 2);
  EXPECT_EQ(landing_.slots().taken(), 1u);
  landing_.Release(1, 0, kChunk / 2);
  EXPECT_EQ(landing_.slots().taken(), 0u);
}

TEST_F(LandingTest, RefusesChunksThatOverlap) {
  ASSERT_TRUE(Land(1, 1000, 1000));
  EXPECT_FALSE(Land(1, 1999, 10));
  EXPECT_FALSE(Land(1, 500, 501));
  EXPECT_TRUE(Land(1, 2000, 10));
  EXPECT_FALSE(Land(1, ~uint64_t{0} - 5, 10)) << "wraps";
}

TEST_F(LandingTest, LandsAChunkAgainThatALostLaneBroughtInPart) {
  ChunkHeader header = Header(1, 0, 5000);
  std::span<std::byte> first = landing_.Destination(header);
  std::span<std::byte> again = landing_.Destination(header);
  EXPECT_EQ(first.data(), again.data());
  landing_.Landed(header);
  EXPECT_TRUE(landing_.Destination(header).empty()) << "it has landed";
}

TEST_F(LandingTest, TakesTheHeapWhenNothingWillFreeASlotAndThenRefuses) {
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(Land(1, i * kChunk, kChunk));
  for (uint64_t i = 8; i < 12; ++i)
    ASSERT_TRUE(Land(1, i * kChunk, kChunk)) << "held slots belong to records still to come";
  EXPECT_FALSE(Land(1, 12 * kChunk, kChunk)) << "past every bound";
}

TEST_F(LandingTest, CountsWhatAChunkOfOneByteCosts) {
  uint64_t landed = 0;
  while (landed < kHeapBytes && Land(1, landed, 1)) ++landed;
  EXPECT_GT(landed, 1000u);
  EXPECT_LT(landed, kHeapBytes / 128);
}

TEST_F(LandingTest, HoldsALaneBackWhileTheDeviceUsesTheSlots) {
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(Land(1, i * kChunk, kChunk));
  std::vector<Landing::Piece> pieces;
  ASSERT_TRUE(landing_.Claim(1, 0, 8 * kChunk, true, &pieces));
  std::atomic<bool> landed{false};
  std::thread lane([&] {
    EXPECT_TRUE(Land(2, 0, kChunk));
    landed = true;
  });
  EXPECT_FALSE(landed);
  landing_.Release(1, 0, kChunk);
  lane.join();
  EXPECT_TRUE(landed);
  EXPECT_EQ(landing_.slots().taken(), 8u) << "the freed slot, not the heap";
}

TEST_F(LandingTest, TellsWhatHasBeenUsedInSteps) {
  constexpr uint32_t kPiece = 1u << 20;
  for (uint64_t i = 0; i < kUsedStepBytes / kPiece; ++i) {
    EXPECT_EQ(used_bytes_, 0u);
    ASSERT_TRUE(Land(1, i * kPiece, kPiece));
    std::vector<Landing::Piece> pieces;
    ASSERT_TRUE(landing_.Claim(1, i * kPiece, kPiece, false, &pieces));
    landing_.Release(1, i * kPiece, kPiece);
  }
  EXPECT_EQ(used_bytes_, kUsedStepBytes);
}

}  // namespace
}  // namespace farcall::server
