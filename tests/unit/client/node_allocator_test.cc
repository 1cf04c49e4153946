// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/node_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace farcall::client {
namespace {

using Map = std::map<int, uint64_t, std::less<>, NodeAllocator<std::pair<const int, uint64_t>>>;

TEST(NodeAllocatorTest, ANodeThatCameBackServesTheNextRequest) {
  NodeAllocator<uint64_t> nodes;
  uint64_t* first = nodes.allocate(1);
  uint64_t* second = nodes.allocate(1);
  nodes.deallocate(first, 1);
  nodes.deallocate(second, 1);
  EXPECT_EQ(nodes.allocate(1), second);
  EXPECT_EQ(nodes.allocate(1), first);
  nodes.deallocate(first, 1);
  nodes.deallocate(second, 1);
}

TEST(NodeAllocatorTest, AnArrayIsNotTakenForANode) {
  NodeAllocator<uint64_t> nodes;
  uint64_t* array = nodes.allocate(64);
  nodes.deallocate(array, 64);
  uint64_t* node = nodes.allocate(1);
  *node = 1;
  nodes.deallocate(node, 1);
}

TEST(NodeAllocatorTest, AMapOfASteadySizeReusesItsNodes) {
  Map map;
  map[0] = 0;
  const uint64_t* place = &map[0];
  for (int i = 1; i < 100; ++i) {
    map.erase(i - 1);
    map[i] = static_cast<uint64_t>(i);
    EXPECT_EQ(&map[i], place);
  }
}

TEST(NodeAllocatorTest, AContainerMayBeMovedAndCopied) {
  Map map;
  for (int i = 0; i < 10; ++i) map[i] = 1;
  map.erase(3);
  Map copy = map;
  Map moved = std::move(map);
  EXPECT_EQ(copy, moved);
  moved.swap(copy);
  moved.clear();
  EXPECT_EQ(copy.size(), 9u);
}

}  // namespace
}  // namespace farcall::client
