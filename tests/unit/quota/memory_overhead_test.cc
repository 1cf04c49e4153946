// SPDX-License-Identifier: Apache-2.0
#include "quota/memory/memory_overhead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace farcall::quota {
namespace {

TEST(MemoryOverhead, IsWhatTheDriverCountsBesideTheCharges) {
  MemoryOverhead overhead;
  EXPECT_FALSE(overhead.is_known());
  EXPECT_EQ(overhead.bytes(), 0u);
  overhead.Before(100);
  overhead.Note(430, 100);
  EXPECT_TRUE(overhead.is_known());
  EXPECT_EQ(overhead.bytes(), 330u);
}

TEST(MemoryOverhead, ChargesThatTheDriverHasNotSeenAreNone) {
  MemoryOverhead overhead;
  overhead.Before(100);
  overhead.Note(50, 200);
  EXPECT_EQ(overhead.bytes(), 0u);
}

TEST(MemoryOverhead, OneSpoiltReadingSaysNothing) {
  MemoryOverhead overhead;
  for (uint64_t used : {330u, 5000u, 330u, 0u, 330u}) {
    overhead.Before(0);
    overhead.Note(used, 0);
  }
  EXPECT_EQ(overhead.bytes(), 330u);
}

TEST(MemoryOverhead, FollowsWhatStays) {
  MemoryOverhead overhead;
  for (uint64_t used : {300u, 300u, 300u, 450u, 450u}) {
    overhead.Before(0);
    overhead.Note(used, 0);
  }
  EXPECT_EQ(overhead.bytes(), 450u);
  overhead.Note(300, 0);
  overhead.Note(300, 0);
  EXPECT_EQ(overhead.bytes(), 300u);
}

// Charges go up before the driver's memory does and down after it, at any instant of a reading.
TEST(MemoryOverhead, NeverMoreThanThereIsWhereChargesOnlyGrowOrOnlyShrink) {
  std::mt19937 random(7);
  for (int run = 0; run < 10000; ++run) {
    MemoryOverhead overhead;
    uint64_t real = random() % 1000, own = random() % 100000;
    for (int reading = 0; reading < 4; ++reading) {
      bool grows = random() % 2 == 0;
      uint64_t before = own,
               after = grows ? own + random() % 1000 : own - own % (random() % 99 + 1);
      uint64_t least = std::min(before, after), most = std::max(before, after);
      uint64_t driver = real + least + random() % (most - least + 1);
      overhead.Before(before);
      overhead.Note(driver, after);
      own = after;
      EXPECT_LE(overhead.bytes(), real);
    }
  }
}

}  // namespace
}  // namespace farcall::quota
