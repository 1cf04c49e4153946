// SPDX-License-Identifier: Apache-2.0
#include "proto/records.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace farcall {
namespace {

std::vector<std::byte> Records(const std::vector<uint32_t>& sizes) {
  std::vector<std::byte> bytes;
  for (uint32_t size : sizes) {
    RecordHeader header;
    header.bytes = size;
    header.call = 5;
    size_t at = bytes.size();
    bytes.resize(at + std::max<size_t>(size, sizeof(header)));
    std::memcpy(bytes.data() + at, &header, sizeof(header));
  }
  return bytes;
}

TEST(RecordCursorTest, YieldsEachRecordWithItsBody) {
  std::vector<std::byte> bytes = Records({16, 24, 64});
  RecordCursor cursor(bytes);
  RecordView record;
  std::vector<size_t> bodies;
  while (cursor.Next(record)) bodies.push_back(record.body.size());
  EXPECT_EQ(bodies, (std::vector<size_t>{0, 8, 48}));
  EXPECT_TRUE(cursor.Done());
  EXPECT_TRUE(CheckRecords(bytes, 3).ok());
}

TEST(RecordCursorTest, StopsAtTheFirstLie) {
  for (uint32_t size : {0u, 8u, 15u, 20u, 25u, 4000u, 0xFFFFFFF8u}) {
    std::vector<std::byte> bytes = Records({16, 32});
    std::memcpy(bytes.data() + 16, &size, 4);
    RecordCursor cursor(bytes);
    RecordView record;
    EXPECT_TRUE(cursor.Next(record));
    EXPECT_FALSE(cursor.Next(record));
    EXPECT_FALSE(cursor.Next(record));
    EXPECT_FALSE(cursor.Done());
    Status status = CheckRecords(bytes, 2);
    EXPECT_EQ(status.code(), Code::kMalformed);
    EXPECT_NE(
        status.message().find("record 2 claims " + std::to_string(size) + " bytes, 32 are left"),
        std::string::npos)
        << status.message();
  }
}

TEST(RecordCursorTest, CountsMustAgree) {
  std::vector<std::byte> bytes = Records({16, 16});
  EXPECT_EQ(CheckRecords(bytes, 1).message(), "frame: header counts 1 records, it holds 2");
  EXPECT_EQ(CheckRecords(std::span(bytes).first(20), 1).code(), Code::kMalformed);
}

TEST(RecordCursorTest, StaysInsideRandomBytes) {
  std::mt19937 random(4);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(random() % 5 == 0 ? random() % 48 / 8 * 8 : 0);
    RecordCursor cursor(bytes);
    RecordView record;
    size_t total = 0;
    while (cursor.Next(record)) total += record.header.bytes;
    ASSERT_LE(total, bytes.size());
    EXPECT_EQ(cursor.Done(), total == bytes.size());
  }
}

}  // namespace
}  // namespace farcall
