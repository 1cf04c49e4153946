// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/reservations.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

constexpr uint64_t kMiB = 1u << 20, kBase = uint64_t{1} << 44, kChunk = kChunkGranularityBytes;

class ReservationsTest : public ::testing::Test {
 protected:
  ReservationsTest() { ranges_.SetWindow({kBase, 64 * kMiB}); }
  Reservations ranges_;
  PhysicalMemory memory_;
};

TEST_F(ReservationsTest, TakesWhereItFitsAndAgainWhatWasFreed) {
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, 0), kBase);
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, 0), kBase + 8 * kMiB);
  EXPECT_EQ(ranges_.Reserve(64 * kMiB, kChunk, 0), 0u);
  EXPECT_EQ(ranges_.Reserve(48 * kMiB, kChunk, 0), kBase + 16 * kMiB);
  EXPECT_EQ(ranges_.Reserve(kChunk, kChunk, 0), 0u) << "nothing is left";
  EXPECT_FALSE(ranges_.Free(kBase + 8 * kMiB, 4 * kMiB));
  EXPECT_TRUE(ranges_.Free(kBase + 8 * kMiB, 8 * kMiB));
  EXPECT_EQ(ranges_.Reserve(6 * kMiB, kChunk, 0), kBase + 8 * kMiB);
}

TEST_F(ReservationsTest, EachServerHasItsOwnWindow) {
  constexpr uint64_t kOther = kBase - 128 * kMiB;
  ranges_.SetWindow({kOther, 64 * kMiB}, 1);
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, 0), kBase);
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, 0, false, 1), kOther);
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, kBase + 16 * kMiB, false, 1), kOther + 8 * kMiB)
      << "a hint into another's window";
  EXPECT_EQ(ranges_.Reserve(8 * kMiB, kChunk, 0, false, 2), 0u) << "no window";
  EXPECT_TRUE(ranges_.Contains(kBase) && ranges_.Contains(kOther));
  EXPECT_FALSE(ranges_.Contains(kOther + 64 * kMiB));
}

TEST_F(ReservationsTest, HonoursAHintThatIsFreeAndAnAlignment) {
  EXPECT_EQ(ranges_.Reserve(kChunk, kChunk, kBase + 32 * kMiB), kBase + 32 * kMiB);
  EXPECT_EQ(ranges_.Reserve(4 * kMiB, kChunk, kBase + 30 * kMiB), kBase) << "the hint is taken";
  EXPECT_EQ(ranges_.Reserve(kChunk, 16 * kMiB, 0), kBase + 16 * kMiB);
  EXPECT_EQ(ranges_.Reserve(kChunk, kChunk, kBase - kChunk), kBase + 4 * kMiB)
      << "a hint outside the window";
}

TEST_F(ReservationsTest, MapsInsideOneReservationOnly) {
  uint64_t first = ranges_.Reserve(8 * kMiB, kChunk, 0),
           second = ranges_.Reserve(kChunk, kChunk, 0);
  uint64_t lent = ranges_.Reserve(kChunk, kChunk, 0, true);
  EXPECT_TRUE(ranges_.MayMap(first, 8 * kMiB));
  EXPECT_FALSE(ranges_.MayMap(first + 6 * kMiB, 4 * kMiB)) << "over the end of it";
  EXPECT_FALSE(ranges_.MayMap(lent, kChunk)) << "another process's";
  EXPECT_FALSE(ranges_.Free(lent, kChunk));
  ranges_.Map({first + 2 * kMiB, kChunk, &memory_, {}});
  EXPECT_FALSE(ranges_.MayMap(first, 8 * kMiB));
  EXPECT_TRUE(ranges_.MayMap(first + 4 * kMiB, kChunk));
  EXPECT_FALSE(ranges_.Free(first, 8 * kMiB));
  EXPECT_TRUE(ranges_.Free(second, kChunk));
}

TEST_F(ReservationsTest, FindsWholePiecesAndWhatCoversARange) {
  uint64_t base = ranges_.Reserve(16 * kMiB, kChunk, 0);
  ranges_.Map({base, 4 * kMiB, &memory_, {}});
  ranges_.Map({base + 4 * kMiB, 4 * kMiB, &memory_, {}});
  EXPECT_EQ(memory_.mappings, 2u);
  EXPECT_EQ(ranges_.Whole(base, 8 * kMiB).size(), 2u);
  EXPECT_TRUE(ranges_.Whole(base, 6 * kMiB).empty());
  EXPECT_TRUE(ranges_.Whole(base + kChunk, 2 * kMiB).empty());
  EXPECT_EQ(ranges_.Covering(base + 3 * kMiB, 2 * kMiB).size(), 2u);
  EXPECT_TRUE(ranges_.Covering(base + 7 * kMiB, 2 * kMiB).empty()) << "its end is not mapped";
  ranges_.Unmap(base, 8 * kMiB);
  EXPECT_EQ(memory_.mappings, 0u);
  EXPECT_TRUE(ranges_.Covering(base, 1).empty());
}

}  // namespace
}  // namespace farcall::client
