// SPDX-License-Identifier: Apache-2.0
// Times as people write them.
#include "pool/convert/time_of_day.h"

#include <gtest/gtest.h>

namespace farcall::pool {
namespace {

TEST(TimeOfDay, IsReadWithItsZone) {
  for (const auto& [text, seconds] :
       std::vector<std::pair<const char*, int64_t>>{{"1970-01-01T00:00Z", 0},
                                                    {"2026-12-01T07:00:00Z", 1'796'108'400},
                                                    {"2026-12-01 07:00 UTC", 1'796'108'400},
                                                    {"2026-12-01T08:00+01:00", 1'796'108'400},
                                                    {"2026-12-01T08:00 +0100", 1'796'108'400},
                                                    {"2026-11-30T23:30:30-07:30", 1'796'108'430},
                                                    {"2028-02-29 00:00Z", 1'835'395'200}}) {
    const Result<int64_t> read = ReadTimeOfDay(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status().message();
    EXPECT_EQ(*read, seconds) << text;
    const Result<int64_t> again = ReadTimeOfDay(TimeOfDayText(*read));
    ASSERT_TRUE(again.ok()) << TimeOfDayText(*read);
    EXPECT_EQ(*again, *read);
  }
  EXPECT_EQ(TimeOfDayText(1'796'108'430), "2026-12-01T07:00:30Z");
}

TEST(TimeOfDay, WhatIsNoneIsRefusedInOneLine) {
  for (const char* text :
       {"", "now", "2026-12-01", "2026-12-01T08:00", "2026-13-01T08:00Z", "2027-02-29T08:00Z",
        "2026-12-01T24:00Z", "2026-12-01T08:60Z", "1969-12-31T08:00Z", "2026-12-01T08:00+15:00",
        "2026-12-01T08:00+1", "2026-12-01T08:00Z and more", "2026-12-01T08:00 Europe/Nowhere",
        "2026-12-01T08:00 ../../etc/passwd",
        "2026-12-01T08:00                                                              Z"}) {
    const Result<int64_t> read = ReadTimeOfDay(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::kInvalid);
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
  }
}

TEST(TimeOfDay, KnowsWhenClocksChange) {
  const Result<int64_t> winter = ReadTimeOfDay("2027-01-15 12:00 Europe/Berlin");
  if (!winter.ok()) GTEST_SKIP() << winter.status().message();
  EXPECT_EQ(TimeOfDayText(*winter), "2027-01-15T11:00:00Z");
  EXPECT_EQ(TimeOfDayText(*ReadTimeOfDay("2027-07-15 12:00 Europe/Berlin")),
            "2027-07-15T10:00:00Z");
  const Result<int64_t> never = ReadTimeOfDay("2027-03-28 02:30 Europe/Berlin");
  ASSERT_FALSE(never.ok());
  EXPECT_NE(never.status().message().find("they go from 02:00 to 03:00"), std::string::npos)
      << never.status().message();
  const Result<int64_t> twice = ReadTimeOfDay("2027-10-31 02:30 Europe/Berlin");
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.status().message().find("write +02:00 or +01:00"), std::string::npos)
      << twice.status().message();
  EXPECT_EQ(*ReadTimeOfDay("2027-10-31 02:30+01:00") - *ReadTimeOfDay("2027-10-31 02:30+02:00"),
            3600);
}

}  // namespace
}  // namespace farcall::pool
