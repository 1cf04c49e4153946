// SPDX-License-Identifier: Apache-2.0
#include "cli/output/table.h"

#include <gtest/gtest.h>

namespace farcall::cli {
namespace {

const std::vector<Column> kColumns = {
    {"NAME", false, 0}, {"BYTES", true, 0}, {"NOTE", false, 2}, {"STATE", false, 1}};

TEST(TableTest, NumbersAreToTheRight) {
  EXPECT_EQ(Table({{"NAME"}, {"BYTES", true}}, {{"a", "1"}, {"long name", "12345678"}}),
            "NAME          BYTES\n"
            "a                 1\n"
            "long name  12345678\n");
}

TEST(TableTest, LeavesOutByRankWhatDoesNotFit) {
  const std::vector<Cells> rows = {{"a", "1", "something", "runs"}};
  EXPECT_EQ(Table(kColumns, rows, 40).find("NOTE") != std::string::npos, true);
  EXPECT_EQ(Table(kColumns, rows, 20), "NAME  BYTES  STATE\na         1  runs\n");
  EXPECT_EQ(Table(kColumns, rows, 12), "NAME  BYTES\na         1\n");
  EXPECT_EQ(Table(kColumns, rows, 1), "NAME  BYTES\na         1\n") << "those stay";
}

TEST(TableTest, ColorsTakeNoRoom) {
  const std::vector<Cells> rows = {{"a", Cell("1", Color::kRed)}};
  EXPECT_EQ(TableLines({{"NAME"}, {"BYTES", true}}, rows, kAnyWidth, true)[1],
            "a         \033[31m1\033[0m");
  EXPECT_EQ(TableLines({{"NAME"}, {"BYTES", true}}, rows)[1], "a         1");
}

TEST(TableTest, WhatPeersSayIsPrintable) {
  EXPECT_EQ(TableLines({{"NAME"}}, {{"a\033[2J\n"}})[1], "a\\x1b[2J\\n");
}

TEST(TableTest, BarsAndSparklines) {
  EXPECT_EQ(BarText(500, 10), "#####.....");
  EXPECT_EQ(BarText(5000, 4), "####");
  EXPECT_EQ(BarText(0, 4), "....");
  EXPECT_EQ(SparkText({0, 1, 500, 1000, 2000}, 5), " .=##");
  EXPECT_EQ(SparkText({1000}, 3), "  #");
  EXPECT_EQ(SparkText({1, 2, 1000}, 2), ".#");
}

TEST(TableTest, SizesAndTimes) {
  EXPECT_EQ(BytesText(0), "0B");
  EXPECT_EQ(BytesText(1536), "1.5KiB");
  EXPECT_EQ(BytesText(300ull << 20), "300MiB");
  EXPECT_EQ(MilliText(125), "12.5%");
  EXPECT_EQ(AgeText(3'723'000), "1h02m");
  EXPECT_EQ(DeviceTimeText(3'200'000'000), "3.20s");
}

}  // namespace
}  // namespace farcall::cli
