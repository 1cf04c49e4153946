// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory_map.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

Allocation At(uint64_t base, uint64_t bytes, Context* context = nullptr) {
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.context = context;
  return allocation;
}

TEST(MemoryMap, FindsByAnyAddressInside) {
  MemoryMap map;
  map.Insert(At(1000, 100));
  Allocation found;
  EXPECT_TRUE(map.Find(1099, &found));
  EXPECT_EQ(found.base, 1000u);
  EXPECT_FALSE(map.Find(1100, &found));
  EXPECT_FALSE(map.Find(999, &found));
}

TEST(MemoryMap, HoldsOnlyRangesThatDoNotRunOver) {
  MemoryMap map;
  map.Insert(At(1000, 100));
  map.Insert(At(1100, 100));
  Allocation found;
  EXPECT_TRUE(map.Holds(1050, 50, &found));
  EXPECT_FALSE(map.Holds(1050, 51, &found));
  EXPECT_FALSE(map.Holds(1050, ~0ull, &found));
}

TEST(MemoryMap, OverlapIsSeenFromEverySide) {
  MemoryMap map;
  map.Insert(At(1000, 100));
  EXPECT_TRUE(map.Overlaps(950, 51));
  EXPECT_TRUE(map.Overlaps(1099, 1));
  EXPECT_TRUE(map.Overlaps(900, 1000));
  EXPECT_FALSE(map.Overlaps(950, 50));
  EXPECT_FALSE(map.Overlaps(1100, 10));
}

TEST(MemoryMap, AContextTakesItsAllocationsAlong) {
  MemoryMap map;
  Context one, other;
  map.Insert(At(1000, 100, &one));
  map.Insert(At(2000, 100, &other));
  EXPECT_EQ(map.RemoveContext(&one).size(), 1u);
  Allocation found;
  EXPECT_FALSE(map.Find(1000, &found));
  EXPECT_TRUE(map.Find(2000, &found));
}

}  // namespace
}  // namespace farcall::client
