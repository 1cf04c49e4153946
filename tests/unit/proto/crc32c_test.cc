// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace farcall {
namespace {

uint32_t Of(const char* text) {
  return Crc32c(0, std::as_bytes(std::span(text, std::strlen(text))));
}

TEST(Crc32cTest, MatchesPublishedValues) {
  EXPECT_EQ(Of(""), 0u);
  EXPECT_EQ(Of("123456789"), 0xE3069283u);
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xFF});
  EXPECT_EQ(Crc32c(0, zeros), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(0, ones), 0x62A8AB43u);
}

TEST(Crc32cTest, TableAndInstructionAgreeAndContinue) {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(1000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t size = 7; size < bytes.size(); size += 5) {
    std::span<const std::byte> part = std::span(bytes).first(size).subspan(size % 7);
    EXPECT_EQ(Crc32c(0, part), Crc32cByTable(0, part));
    size_t cut = part.size() / 3;
    EXPECT_EQ(Crc32c(Crc32c(0, part.first(cut)), part.subspan(cut)), Crc32c(0, part));
  }
}

}  // namespace
}  // namespace farcall
