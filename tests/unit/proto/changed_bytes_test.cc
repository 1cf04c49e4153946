// SPDX-License-Identifier: Apache-2.0
// Masks of changed bytes: each byte by itself, ends of any length.
#include "proto/changed_bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace farcall {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ChangedBytes, EachByteHasItsBit) {
  std::array<std::byte, 8> before{};
  for (size_t i = 0; i < 8; ++i) {
    for (int change : {1, 0x7F, 0x80, 0xFF}) {
      std::array<std::byte, 8> now{};
      now[i] = static_cast<std::byte>(change);
      EXPECT_EQ(DifferingBytes(now.data(), before.data()), 1u << i) << change;
    }
  }
  std::array<std::byte, 8> all;
  all.fill(std::byte{9});
  EXPECT_EQ(DifferingBytes(all.data(), before.data()), 0xFF);
  EXPECT_EQ(DifferingBytes(all.data(), before.data(), 3), 0b111) << "not what lies behind";
}

TEST(ChangedBytes, AMaskCoversAnEndThatIsNoWord) {
  auto before = Bytes({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  auto now = Bytes({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5});
  std::array<std::byte, 2> mask;
  ASSERT_EQ(MaskBytes(now.size()), mask.size());
  EXPECT_TRUE(MaskChanged(now, before.data(), mask.data()));
  EXPECT_EQ(mask[0], std::byte{0b10});
  EXPECT_EQ(mask[1], std::byte{0b100});
  EXPECT_FALSE(MaskChanged(now, now.data(), mask.data()));
  EXPECT_TRUE(MaskFits(0, 11) && MaskFits(2, 11));
  EXPECT_FALSE(MaskFits(1, 11) || MaskFits(3, 11));
}

TEST(ChangedBytes, TakesWhatTheMaskNamesIntoBothCopies) {
  auto memory = Bytes({9, 9, 9, 9, 9, 9, 9, 9, 9, 9}), agreed = memory;
  auto news = Bytes({1, 2, 3, 4, 5, 6, 7, 8, 1, 2});
  auto mask = Bytes({0b00100001, 0b10});
  TakeChanged(news, mask, memory.data(), agreed.data());
  EXPECT_EQ(memory, Bytes({1, 9, 9, 9, 9, 6, 9, 9, 9, 2}));
  EXPECT_EQ(agreed, memory);
  TakeChanged(news, {}, memory.data(), agreed.data());
  EXPECT_EQ(memory, news);
  EXPECT_EQ(agreed, news);
}

}  // namespace
}  // namespace farcall
