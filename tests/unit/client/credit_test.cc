// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/credit.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

constexpr uint64_t kBase = 0x200000000000, kMiB = 1u << 20;

struct CreditTest : testing::Test {
  CreditTest() { credit.SetWindow({kBase, 1u << 30}); }
  Credit credit;
};

TEST_F(CreditTest, NothingIsHandedOutBeforeAGrant) {
  EXPECT_EQ(credit.Take(0, 512), 0u);
}

TEST_F(CreditTest, AGrantOutsideTheWindowOrOverAnotherIsRefused) {
  EXPECT_FALSE(credit.AddGrant(0, kBase - 2 * kMiB, 2 * kMiB));
  EXPECT_FALSE(credit.AddGrant(0, kBase + (1u << 30) - kMiB, 2 * kMiB));
  EXPECT_FALSE(credit.AddGrant(0, kBase, ~0ull - 511));
  EXPECT_FALSE(credit.AddGrant(-1, kBase, 2 * kMiB));
  EXPECT_TRUE(credit.AddGrant(0, kBase + 4 * kMiB, 4 * kMiB));
  EXPECT_FALSE(credit.AddGrant(1, kBase + 6 * kMiB, 2 * kMiB));
  EXPECT_FALSE(credit.AddGrant(0, kBase + 2 * kMiB, 3 * kMiB));
}

TEST_F(CreditTest, TheSmallestRangeThatFitsIsTaken) {
  ASSERT_TRUE(credit.AddGrant(0, kBase, 8 * kMiB));
  ASSERT_TRUE(credit.AddGrant(0, kBase + 16 * kMiB, 2 * kMiB));
  EXPECT_EQ(credit.Take(0, kMiB), kBase + 16 * kMiB);
  EXPECT_EQ(credit.Take(0, 4 * kMiB), kBase);
  EXPECT_EQ(credit.Take(0, 8 * kMiB), 0u);
}

TEST_F(CreditTest, DevicesDoNotShareCredit) {
  ASSERT_TRUE(credit.AddGrant(1, kBase, 2 * kMiB));
  EXPECT_EQ(credit.Take(0, 512), 0u);
  EXPECT_EQ(credit.Take(1, 512), kBase);
}

TEST_F(CreditTest, FreedBlocksWaitForTheirEpochThenMerge) {
  ASSERT_TRUE(credit.AddGrant(0, kBase, 2 * kMiB));
  uint64_t first = credit.Take(0, kMiB), second = credit.Take(0, kMiB);
  credit.Quarantine(1, 1, {0, first, kMiB});
  credit.Quarantine(1, 2, {0, second, kMiB});
  EXPECT_EQ(credit.Take(0, 512), 0u);
  EXPECT_EQ(credit.QuarantinedBytes(0), 2 * kMiB);
  credit.Freed(2, 9);  // another context's
  credit.Freed(1, 1);
  EXPECT_EQ(credit.FreeBytes(0), kMiB);
  credit.Freed(1, 2);
  EXPECT_EQ(credit.Take(0, 2 * kMiB), kBase);
}

TEST_F(CreditTest, EachContextWithQuarantineIsNamedWithItsLastEpoch) {
  ASSERT_TRUE(credit.AddGrant(0, kBase, 2 * kMiB));
  credit.Quarantine(3, 4, {0, credit.Take(0, 512), 512});
  credit.Quarantine(3, 7, {0, credit.Take(0, 512), 512});
  credit.Quarantine(5, 1, {0, credit.Take(0, 512), 512});
  using Quarantined = Credit::Quarantined;
  EXPECT_EQ(credit.NextQuarantined(0, 0), (Quarantined{3, 7}));
  EXPECT_EQ(credit.NextQuarantined(0, 4), (Quarantined{5, 1}));
  EXPECT_FALSE(credit.NextQuarantined(0, 6).has_value());
  EXPECT_FALSE(credit.NextQuarantined(1, 0).has_value());
}

TEST_F(CreditTest, OnlyWholeFreeChunksGoBackAndMayBeGrantedAgain) {
  ASSERT_TRUE(credit.AddGrant(0, kBase, 8 * kMiB));
  ASSERT_EQ(credit.Take(0, 512), kBase);
  EXPECT_EQ(credit.ReturnableBytes(0), 6 * kMiB);
  EXPECT_EQ(credit.ReturnableBytes(1), 0u);
  std::vector<CreditRange> back = credit.TakeForReturn(0, 4 * kMiB);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].base, kBase + 2 * kMiB);
  EXPECT_EQ(back[0].bytes, 4 * kMiB);
  EXPECT_EQ(credit.FreeBytes(0), 4 * kMiB - 512);
  EXPECT_TRUE(credit.AddGrant(0, kBase + 2 * kMiB, 4 * kMiB));
  EXPECT_FALSE(credit.AddGrant(0, kBase + 6 * kMiB, 2 * kMiB));
}

TEST_F(CreditTest, ARecallOfMoreThanThereIsGivesAllThatIsFree) {
  ASSERT_TRUE(credit.AddGrant(0, kBase, 4 * kMiB));
  EXPECT_TRUE(credit.TakeForReturn(7, kMiB).empty());
  std::vector<CreditRange> back = credit.TakeForReturn(0, ~uint64_t{0});
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].base, kBase);
  EXPECT_EQ(back[0].bytes, 4 * kMiB);
  EXPECT_EQ(credit.FreeBytes(0), 0u);
  EXPECT_EQ(credit.returns(), 1u);
  EXPECT_TRUE(credit.TakeForReturn(0, ~uint64_t{0}).empty());
  EXPECT_EQ(credit.returns(), 1u);
}

}  // namespace
}  // namespace farcall::client
