// SPDX-License-Identifier: Apache-2.0
#include "proto/codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <variant>

namespace farcall {
namespace {

using Value = std::variant<uint8_t, int16_t, uint32_t, double, uint64_t, std::string>;

std::vector<Value> RandomValues(std::mt19937& random) {
  std::vector<Value> values;
  for (int count = static_cast<int>(random() % 20); count > 0; --count) {
    switch (random() % 6) {
      case 0:
        values.emplace_back(static_cast<uint8_t>(random()));
        break;
      case 1:
        values.emplace_back(static_cast<int16_t>(random()));
        break;
      case 2:
        values.emplace_back(static_cast<uint32_t>(random()));
        break;
      case 3:
        values.emplace_back(static_cast<double>(random()) / 3);
        break;
      case 4:
        values.emplace_back(static_cast<uint64_t>(random()) << 32 | random());
        break;
      default:
        values.emplace_back(std::string(random() % 40, static_cast<char>('a' + random() % 26)));
    }
  }
  return values;
}

template <typename Sink>
void PutAll(Sink& sink, const std::vector<Value>& values) {
  for (const Value& value : values) {
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
            sink.PutString(v);
          else
            sink.Put(v);
        },
        value);
  }
}

// Reads the values back; true if each is equal.
bool ReadAll(Reader& reader, const std::vector<Value>& values) {
  bool equal = true;
  for (const Value& value : values) {
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>)
            equal &= reader.GetString() == v;
          else
            equal &= reader.Get<T>() == v;
        },
        value);
  }
  return equal;
}

TEST(CodecTest, ReadsBackWhatWriterAndBuilderWroteAlike) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Value> values = RandomValues(random);
    std::vector<std::byte> room(4096, std::byte{0xAA});
    Writer writer(room);
    PutAll(writer, values);
    ASSERT_TRUE(writer.ok());
    Builder builder;
    PutAll(builder, values);
    ASSERT_EQ(builder.bytes().size(), writer.size_bytes());
    ASSERT_TRUE(std::equal(builder.bytes().begin(), builder.bytes().end(), room.begin()));
    Reader reader(builder.bytes());
    EXPECT_TRUE(ReadAll(reader, values));
    EXPECT_TRUE(reader.Done());
  }
}

TEST(CodecTest, EveryTruncationIsSeen) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<Value> values = RandomValues(random);
    Builder builder;
    PutAll(builder, values);
    for (size_t bytes = 0; bytes < builder.bytes().size(); ++bytes) {
      Reader reader(builder.bytes().first(bytes));
      EXPECT_FALSE(ReadAll(reader, values) && reader.ok())
          << bytes << " of " << builder.bytes().size();
    }
  }
}

TEST(CodecTest, WriterStopsAtItsRoomForGood) {
  std::vector<std::byte> room(16, std::byte{0xAA});
  Writer writer{std::span<std::byte>(room).first(12)};
  writer.Put<uint64_t>(1);
  writer.Put<uint64_t>(2);
  EXPECT_FALSE(writer.ok());
  writer.Put<uint8_t>(3);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.size_bytes(), 8u);
  EXPECT_EQ(room[8], std::byte{0xAA});
}

TEST(CodecTest, ReaderYieldsZeroAfterAFault) {
  std::vector<std::byte> body(12, std::byte{0xFF});
  Reader reader(body);
  EXPECT_TRUE(reader.GetBytes().empty());  // claims 2^64 - 1 bytes
  EXPECT_EQ(reader.Get<uint8_t>(), 0);
  EXPECT_EQ(reader.GetCount(1), 0u);
  EXPECT_FALSE(reader.Done());
}

TEST(CodecTest, CountsAreCheckedAgainstWhatIsLeft) {
  Builder builder;
  builder.Put<uint64_t>(3);
  builder.Put<uint64_t>(0);
  builder.Put<uint64_t>(0);
  Reader three(builder.bytes());
  EXPECT_EQ(three.GetCount(8), 0u);
  EXPECT_FALSE(three.ok());
  Reader small(builder.bytes());
  EXPECT_EQ(small.GetCount(4), 3u);
  EXPECT_TRUE(small.ok());
}

TEST(CodecTest, LeftoverBytesAreNotDone) {
  std::vector<std::byte> body(16);
  Reader reader(body);
  reader.Get<uint64_t>();
  EXPECT_FALSE(reader.Done());
}

}  // namespace
}  // namespace farcall
