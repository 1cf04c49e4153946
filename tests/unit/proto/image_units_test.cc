// SPDX-License-Identifier: Apache-2.0
#include "proto/cuda/image_units.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace farcall {
namespace {

using Unit = std::vector<std::byte>;

Unit Filled(size_t bytes, int value) {
  return Unit(bytes, static_cast<std::byte>(value));
}

TEST(ImageUnits, WhatWasJoinedComesApartOnMultiplesOfEight) {
  const std::vector<Unit> units = {Filled(1, 7), Filled(16, 8), Filled(23, 9)};
  const Unit image = JoinImageUnits(units);
  EXPECT_TRUE(HoldsImageUnits(image));
  std::vector<std::span<const std::byte>> found;
  ASSERT_TRUE(SplitImageUnits(image, &found));
  ASSERT_EQ(found.size(), units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    EXPECT_EQ(Unit(found[i].begin(), found[i].end()), units[i]);
    EXPECT_EQ((found[i].data() - image.data()) % 8, 0);
  }
}

TEST(ImageUnits, NoImageOfAnotherKindHoldsThem) {
  const char text[] = ".version 8.0\n";
  EXPECT_FALSE(HoldsImageUnits(std::as_bytes(std::span(text))));
  EXPECT_FALSE(HoldsImageUnits({}));
  std::vector<std::span<const std::byte>> found;
  EXPECT_FALSE(SplitImageUnits(std::as_bytes(std::span(text)), &found));
}

TEST(ImageUnits, NoneLiesPastTheEndWhateverTheImageSays) {
  const Unit image = JoinImageUnits(std::vector<Unit>{Filled(20, 1), Filled(9, 2)});
  std::vector<std::span<const std::byte>> found;
  for (size_t bytes = 0; bytes < image.size(); ++bytes) {
    const Unit cut(image.begin(), image.begin() + static_cast<ptrdiff_t>(bytes));
    if (!SplitImageUnits(cut, &found)) continue;
    EXPECT_EQ(bytes, 8u + 8 + 24);  // just the first
  }
  for (const uint64_t lie : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    Unit changed = image;
    std::memcpy(changed.data() + 8, &lie, sizeof(lie));
    EXPECT_FALSE(SplitImageUnits(changed, &found)) << lie;
  }
}

}  // namespace
}  // namespace farcall
