// SPDX-License-Identifier: Apache-2.0
// What people write as shares and sizes: one parser each, and none takes what no person means.
#include <gtest/gtest.h>

#include <clocale>
#include <string>
#include <utility>

#include "settings/byte_count.h"
#include "settings/byte_rate.h"
#include "settings/percent.h"

namespace farcall {
namespace {

// What strtod, strtoull and their like take.
constexpr const char* kNoNumbers[] = {
    "",    " ",   "x",        "-1",  "+1",    " 1",    "1 ",
    ".5",  "5.",  "1e1",      "1E1", "0x1",   "0x10",  "0x1p1",
    "inf", "nan", "infinity", "1,5", "1'000", "1.2.3", "99999999999999999999"};

TEST(ReadDecimal, TakesDigitsAndAPoint) {
  Decimal number;
  ASSERT_TRUE(ReadDecimal("12.5GiB", &number));
  EXPECT_EQ(number.whole, 12u);
  EXPECT_EQ(number.billionths, 500'000'000u);
  EXPECT_EQ(number.rest, "GiB");
  ASSERT_TRUE(ReadDecimal("18446744073709551615", &number));
  EXPECT_EQ(number.whole, UINT64_MAX);
  EXPECT_FALSE(ReadDecimal("18446744073709551616", &number));
  ASSERT_TRUE(ReadDecimal("0.1234567890000", &number));
  EXPECT_EQ(number.billionths, 123'456'789u);
  EXPECT_FALSE(ReadDecimal("0.1234567891", &number)) << "finer than there is room for";
}

TEST(ParseMilli, TakesPercentAndFraction) {
  const std::pair<const char*, uint32_t> kParts[] = {
      {"30%", 300},    {"12.5%", 125}, {"0.3", 300}, {"0.125", 125}, {"100%", 1000}, {"1", 1000},
      {"1.000", 1000}, {"0", 0},       {"0%", 0},    {"0.1%", 1},    {"33.30%", 333}};
  for (auto [text, wanted] : kParts) {
    uint32_t milli = 7777;
    EXPECT_TRUE(ParseMilli(text, &milli)) << text;
    EXPECT_EQ(milli, wanted) << text;
  }
}

TEST(ParseMilli, RefusesWhatIsNoPart) {
  uint32_t milli = 7;
  for (std::string text : kNoNumbers) {
    EXPECT_FALSE(ParseMilli(text, &milli)) << text;
    EXPECT_FALSE(ParseMilli(text + "%", &milli)) << text;
  }
  for (const char* text : {"130%", "100.1%", "1.001", "2", "30 %", "30%%", "half", "0.04%",
                           "0.0004", "12.55%", "18446744073709551615%", "18446744073709551615"})
    EXPECT_FALSE(ParseMilli(text, &milli)) << text;
  EXPECT_EQ(milli, 7u);
}

TEST(ParseByteCount, TakesBinaryAndDecimalUnits) {
  const std::pair<const char*, uint64_t> kSizes[] = {{"0", 0},
                                                     {"123", 123},
                                                     {"123B", 123},
                                                     {"4GiB", 4ull << 30},
                                                     {"1.5MiB", 3u << 19},
                                                     {"2GB", 2'000'000'000},
                                                     {"512M", 512u << 20},
                                                     {"2T", 2ull << 40},
                                                     {"4gib", 4ull << 30},
                                                     {"4GIB", 4ull << 30},
                                                     {"4gb", 4'000'000'000},
                                                     {"1TB", 1'000'000'000'000},
                                                     {"0.3KiB", 307},
                                                     {"18446744073709551615", UINT64_MAX},
                                                     {"16777215TiB", 16777215ull << 40}};
  for (auto [text, wanted] : kSizes) {
    uint64_t bytes = 7;
    EXPECT_TRUE(ParseByteCount(text, &bytes)) << text;
    EXPECT_EQ(bytes, wanted) << text;
  }
}

TEST(ParseByteCount, RefusesWhatIsNoSize) {
  uint64_t bytes = 7;
  for (std::string text : kNoNumbers)
    for (const char* unit : {"", "B", "GiB"})
      EXPECT_FALSE(ParseByteCount(text + unit, &bytes)) << text << unit;
  for (const char* text : {"GiB", "4 parsecs", "1e30GiB", "16777216TiB", "4GiBB", "4gi"})
    EXPECT_FALSE(ParseByteCount(text, &bytes)) << text;
  EXPECT_EQ(bytes, 7u);
}

TEST(ParseByteRate, RefusesWhatIsNoRate) {
  uint64_t bytes = 7;
  for (std::string text : kNoNumbers) EXPECT_FALSE(ParseByteRate(text + "MB/s", &bytes)) << text;
  EXPECT_EQ(bytes, 7u);
}

// A program sets its own locale, in which a point may be no point.
TEST(Quantities, AreTheSameInEveryLocale) {
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, locale) == nullptr) continue;
    uint32_t milli = 0;
    uint64_t bytes = 0;
    EXPECT_TRUE(ParseMilli("12.5%", &milli));
    EXPECT_TRUE(ParseByteCount("1.5MiB", &bytes));
    std::setlocale(LC_ALL, "C");
    EXPECT_EQ(milli, 125u);
    EXPECT_EQ(bytes, 3u << 19);
  }
}

}  // namespace
}  // namespace farcall
