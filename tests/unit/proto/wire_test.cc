// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.h"

#include <gtest/gtest.h>

namespace farcall {
namespace {

TEST(HandleTest, PartsComeBack) {
  for (uint32_t index : {1u, 77u, kMaxHandleIndex}) {
    for (uint16_t generation : {0, 1, 65535}) {
      uint64_t handle = MakeHandle(HandleKind::kEvent, index, generation);
      HandleParts parts = SplitHandle(handle);
      EXPECT_EQ(parts.kind, HandleKind::kEvent);
      EXPECT_EQ(parts.index, index);
      EXPECT_EQ(parts.generation, generation);
      EXPECT_NE(handle, 0u);
      EXPECT_EQ(handle % 16, 0u) << "programs count on a pointer's alignment";
      EXPECT_TRUE(HasHandleForm(handle));
      EXPECT_FALSE(HasHandleForm(handle + 1));
      EXPECT_FALSE(HasHandleForm(handle | uint64_t{1} << 52));
    }
  }
}

TEST(WindowTest, ContainsNeitherWrapsNorOverruns) {
  Window window{0x200000000000, 1u << 30};
  EXPECT_TRUE(window.Contains(window.base, window.bytes));
  EXPECT_FALSE(window.Contains(window.base, window.bytes + 1));
  EXPECT_FALSE(window.Contains(window.base - 1, 1));
  EXPECT_FALSE(window.Contains(window.base + 1, UINT64_MAX));
  EXPECT_TRUE(window.Contains(window.base + window.bytes, 0));
}

}  // namespace
}  // namespace farcall
