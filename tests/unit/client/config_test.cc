// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/config.h"

#include <gtest/gtest.h>

#include "proto/percent.h"

namespace farcall::client {
namespace {

TEST(ParseBytes, TakesBinaryAndDecimalUnits) {
  uint64_t bytes = 0;
  EXPECT_TRUE(ParseBytes("4GiB", &bytes));
  EXPECT_EQ(bytes, 4ull << 30);
  EXPECT_TRUE(ParseBytes("1.5MiB", &bytes));
  EXPECT_EQ(bytes, 3u << 19);
  EXPECT_TRUE(ParseBytes("2GB", &bytes));
  EXPECT_EQ(bytes, 2000000000u);
  EXPECT_TRUE(ParseBytes("123", &bytes));
  EXPECT_EQ(bytes, 123u);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  uint64_t bytes = 7;
  for (const char* text : {"", "GiB", "4 parsecs", "-1MiB", "1e30GiB", "nan"}) {
    EXPECT_FALSE(ParseBytes(text, &bytes)) << text;
  }
  EXPECT_EQ(bytes, 7u);
}

TEST(ParseMilli, TakesPercentAndFraction) {
  uint32_t milli = 0;
  EXPECT_TRUE(ParseMilli("30%", &milli));
  EXPECT_EQ(milli, 300u);
  EXPECT_TRUE(ParseMilli("0.125", &milli));
  EXPECT_EQ(milli, 125u);
  EXPECT_FALSE(ParseMilli("130%", &milli));
  EXPECT_FALSE(ParseMilli("half", &milli));
}

}  // namespace
}  // namespace farcall::client
