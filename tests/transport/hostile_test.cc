// SPDX-License-Identifier: Apache-2.0
// A peer that lies: each lie ends the session with one precise reason, and nothing of it is
// delivered.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "proto/crc32c.h"
#include "tests/transport/link_harness.h"
#include "transport/link/chunk_packing.h"

namespace farcall::test {
namespace {

std::vector<std::byte> Frame(FrameHeader header, std::vector<RecordHeader> records,
                             bool sum = true) {
  size_t body_bytes = 0;
  for (const RecordHeader& record : records)
    body_bytes += std::max<size_t>(record.bytes, sizeof(record));
  std::vector<std::byte> frame(sizeof(header) + body_bytes);
  size_t at = sizeof(header);
  for (const RecordHeader& record : records) {
    std::memcpy(frame.data() + at, &record, sizeof(record));
    at += std::max<size_t>(record.bytes, sizeof(record));
  }
  if (header.bytes == 0) header.bytes = static_cast<uint32_t>(frame.size());
  std::memcpy(frame.data(), &header, sizeof(header));
  if (sum) {
    header.crc32c = Crc32c(0, frame);
    std::memcpy(frame.data(), &header, sizeof(header));
  }
  return frame;
}

FrameHeader Header(uint64_t seq, uint16_t records) {
  FrameHeader header;
  header.seq = seq;
  header.records = records;
  return header;
}

RecordHeader Record(uint32_t bytes) {
  RecordHeader record;
  record.bytes = bytes;
  record.call = 1;
  return record;
}

class HostileTest : public testing::Test {
 protected:
  explicit HostileTest(const LinkOptions& options = {}) {
    link_ = std::make_unique<Link>(recorder_, options);
    listener_ = std::move(*Listen(FreshUrl("inproc://hostile")));
    log_ = Connect();
    link_->AttachLog(std::move(*listener_->Accept(In(kLong))), 0, 0);
    pump_ = std::thread([this] {
      while (link_->closed().ok()) (void)link_->Pump(In(100));
    });
  }
  ~HostileTest() override {
    link_->Close({Code::kDisconnected, "test over"});
    pump_.join();
  }

  std::unique_ptr<Channel> Connect() { return std::move(*Dial(listener_->Url(), In(kLong))); }
  void OpenLane(uint32_t index, std::unique_ptr<Channel>& lane) {
    lane = Connect();
    link_->AttachLane(index, std::move(*listener_->Accept(In(kLong))));
  }
  // Sends and waits for the end; returns its reason.
  std::string Reason(Channel& channel, std::span<const std::byte> bytes) {
    (void)SendAll(channel, bytes, In(1000));
    if (!recorder_.Until([&] { return recorder_.closed == 1; })) return "still open";
    EXPECT_EQ(recorder_.close_reason.code(), Code::kMalformed);
    return recorder_.close_reason.message();
  }
  std::string Reason(std::span<const std::byte> bytes) { return Reason(*log_, bytes); }

  Recorder recorder_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Channel> log_;
  std::thread pump_;
};

TEST_F(HostileTest, WrongMagic) {
  FrameHeader header = Header(1, 1);
  header.magic = 0x20544547;  // "GET "
  EXPECT_EQ(Reason(Frame(header, {Record(24)})),
            "frame: magic 542393671 (0x20544547), right is FCB1");
}

TEST_F(HostileTest, FrameTooLarge) {
  FrameHeader header = Header(1, 1);
  header.bytes = kMaxFrameBytes + 8;
  EXPECT_NE(Reason(Frame(header, {Record(24)})).find("frame: bytes 1048584"), std::string::npos);
}

TEST_F(HostileTest, FrameSmallerThanItsHeader) {
  FrameHeader header = Header(1, 1);
  header.bytes = 40;
  EXPECT_NE(Reason(Frame(header, {Record(24)})).find("frame: bytes 40"), std::string::npos);
}

TEST_F(HostileTest, UnknownFlags) {
  FrameHeader header = Header(1, 1);
  header.flags = 2;
  EXPECT_NE(Reason(Frame(header, {Record(24)})).find("frame: flags 2"), std::string::npos);
}

TEST_F(HostileTest, AFrameOfTheLogThatAsks) {
  FrameHeader header = Header(1, 1);
  header.flags = kFrameAsks;
  EXPECT_NE(Reason(Frame(header, {Record(24)})).find("frame: flags 1"), std::string::npos);
}

TEST_F(HostileTest, UnknownFlagsOutsideTheLog) {
  FrameHeader header = Header(0, 0);
  header.flags = kFrameAsks | 2;
  EXPECT_NE(Reason(Frame(header, {})).find("frame: flags 3"), std::string::npos);
}

TEST_F(HostileTest, WrongChecksum) {
  std::vector<std::byte> frame = Frame(Header(1, 1), {Record(24)});
  frame.back() ^= std::byte{1};
  EXPECT_NE(Reason(frame).find("frame: crc32c"), std::string::npos);
  EXPECT_EQ(recorder_.frames, 0u);
}

TEST_F(HostileTest, GapInTheLog) {
  EXPECT_EQ(Reason(Frame(Header(2, 1), {Record(24)})), "frame: seq 2, expected 1");
}

TEST_F(HostileTest, RecordPastTheEnd) {
  std::vector<std::byte> frame = Frame(Header(1, 1), {Record(24)}, false);
  RecordHeader record = Record(32);
  std::memcpy(frame.data() + sizeof(FrameHeader), &record, sizeof(record));
  EXPECT_NE(Reason(frame).find("record 1 claims 32 bytes, 24 are left"), std::string::npos);
}

TEST_F(HostileTest, RecordSmallerThanItsHeader) {
  EXPECT_NE(Reason(Frame(Header(1, 1), {Record(8)})).find("record 1 claims 8 bytes"),
            std::string::npos);
}

TEST_F(HostileTest, WrongRecordCount) {
  EXPECT_EQ(Reason(Frame(Header(1, 3), {Record(24), Record(24)})),
            "frame: header counts 3 records, it holds 2");
}

TEST_F(HostileTest, AcknowledgesFramesNeverSent) {
  FrameHeader header = Header(1, 1);
  header.ack = 1;
  EXPECT_EQ(Reason(Frame(header, {Record(24)})), "frame: ack 1, only 0 frames were sent");
}

TEST_F(HostileTest, AcknowledgesChunksNeverSent) {
  FrameHeader header = Header(1, 1);
  header.chunk_ack = 9;
  EXPECT_EQ(Reason(Frame(header, {Record(24)})), "frame: chunk_ack 9, only 0 chunks were sent");
}

TEST_F(HostileTest, TakesBackChunksSent) {
  FrameHeader first = Header(1, 1), second = Header(2, 1);
  first.chunks_sent = 5;
  second.chunks_sent = 4;
  std::vector<std::byte> bytes = Frame(first, {Record(24)}), more = Frame(second, {Record(24)});
  bytes.insert(bytes.end(), more.begin(), more.end());
  EXPECT_EQ(Reason(bytes), "frame: chunks_sent 4, was 5 before");
}

TEST_F(HostileTest, RandomBytesNeverDeliver) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  EXPECT_NE(Reason(bytes).find("frame: magic"), std::string::npos);
  EXPECT_EQ(recorder_.frames, 0u);
}

class HostileChunkTest : public HostileTest {
 protected:
  explicit HostileChunkTest(const LinkOptions& options = {}) : HostileTest(options) {
    OpenLane(0, lane_);
    recorder_.Expect(1, 1000);
  }
  std::vector<std::byte> Chunk(uint64_t seq, uint64_t transfer, uint64_t offset, uint32_t bytes) {
    ChunkHeader header;
    header.bytes = bytes;
    header.seq = seq;
    header.transfer = transfer;
    header.offset = offset;
    std::vector<std::byte> chunk(sizeof(header) + std::min<size_t>(bytes, 4096));
    std::memcpy(chunk.data(), &header, sizeof(header));
    return chunk;
  }
  std::unique_ptr<Channel> lane_;
};

TEST_F(HostileChunkTest, SeqBeyondTheWindow) {
  EXPECT_EQ(Reason(*lane_, Chunk(4097, 1, 0, 10)), "chunk: seq 4097, at most 4096 may be sent now");
}
TEST_F(HostileChunkTest, UnknownTransfer) {
  EXPECT_EQ(Reason(*lane_, Chunk(1, 2, 0, 10)),
            "chunk: transfer 2 has no room for 10 bytes at offset 0");
}
TEST_F(HostileChunkTest, PastTheTransfersEnd) {
  EXPECT_EQ(Reason(*lane_, Chunk(1, 1, 991, 10)),
            "chunk: transfer 1 has no room for 10 bytes at offset 991");
}
TEST_F(HostileChunkTest, OffsetThatWraps) {
  EXPECT_NE(Reason(*lane_, Chunk(1, 1, UINT64_MAX, 10)).find("chunk: offset"), std::string::npos);
}
TEST_F(HostileChunkTest, TooLarge) {
  EXPECT_NE(Reason(*lane_, Chunk(1, 1, 0, kMaxChunkBytes + 1)).find("chunk: bytes 1048577"),
            std::string::npos);
}
TEST_F(HostileChunkTest, SameSeqOnTwoLanesAtOnce) {
  std::unique_ptr<Channel> other;
  OpenLane(1, other);
  std::vector<std::byte> chunk = Chunk(1, 1, 0, 100);
  // The first lane holds the chunk half landed while the second begins it too; which lane is told
  // does not matter.
  ASSERT_TRUE(SendAll(*lane_, std::span(chunk).first(chunk.size() - 1), In(kLong)).ok());
  EXPECT_EQ(Reason(*other, std::span(chunk).first(chunk.size() - 1)),
            "chunk: seq 1 comes on two lanes at once");
}
TEST_F(HostileChunkTest, ARepeatedChunkIsReadAndDropped) {
  std::vector<std::byte> once = Chunk(1, 1, 0, 100), next = Chunk(2, 1, 100, 100), bytes = once;
  bytes.insert(bytes.end(), once.begin(), once.end());
  bytes.insert(bytes.end(), next.begin(), next.end());
  ASSERT_TRUE(SendAll(*lane_, bytes, In(kLong)).ok());
  ASSERT_TRUE(link_->WaitChunks(2, In(kLong)).ok());
  EXPECT_EQ(recorder_.chunks, 2u);
}
TEST_F(HostileChunkTest, CompressedThoughNobodySaidSo) {
  std::vector<std::byte> chunk = Chunk(1, 1, 0, 100);
  std::memcpy(chunk.data(), &kPackedMagic, sizeof(kPackedMagic));
  EXPECT_EQ(Reason(*lane_, chunk), "chunk: magic 827999046 (0x315a4346), right is FCC1");
}

class HostilePackedTest : public HostileChunkTest {
 protected:
  HostilePackedTest() : HostileChunkTest(Options()) {}
  static LinkOptions Options() {
    LinkOptions options;
    options.packing = LinkOptions::Packing::kAuto;
    return options;
  }
  // Of 1,000 bytes; `packed` holds what is said to be a frame of them.
  std::vector<std::byte> Packed(uint64_t seq, uint32_t packed_bytes,
                                std::span<const std::byte> packed, uint32_t reserved = 0) {
    std::vector<std::byte> chunk = Chunk(seq, 1, 0, 1000);
    chunk.resize(sizeof(ChunkHeader));
    std::memcpy(chunk.data(), &kPackedMagic, sizeof(kPackedMagic));
    const PackedHeader header{packed_bytes, reserved};
    const auto bytes = std::as_bytes(std::span(&header, 1));
    chunk.insert(chunk.end(), bytes.begin(), bytes.end());
    chunk.insert(chunk.end(), packed.begin(), packed.end());
    return chunk;
  }
};

TEST_F(HostilePackedTest, NoBytes) {
  EXPECT_NE(Reason(*lane_, Packed(1, 0, {})).find("chunk: compressed bytes 0"), std::string::npos);
}
TEST_F(HostilePackedTest, AsManyBytesAsItHas) {
  EXPECT_NE(Reason(*lane_, Packed(1, 1000, {})).find("chunk: compressed bytes 1000"),
            std::string::npos);
}
TEST_F(HostilePackedTest, AReservedFieldInUse) {
  EXPECT_NE(Reason(*lane_, Packed(1, 10, {}, 7)).find("chunk: reserved field 7"),
            std::string::npos);
}
// Where the bytes are looked at.
class HostileFrameTest : public HostilePackedTest {
 protected:
  void SetUp() override {
    if (!CanPackChunks()) GTEST_SKIP() << "no libzstd.so.1 here";
  }
  // A frame of Zstandard that is right in itself.
  std::span<const std::byte> FrameOf(size_t zeros) {
    return packer_.Pack(std::vector<std::byte>(zeros));
  }
  void ExpectRefused(std::span<const std::byte> frame) {
    EXPECT_EQ(Reason(*lane_, Packed(1, static_cast<uint32_t>(frame.size()), frame)),
              "chunk: " + std::to_string(frame.size()) + " compressed bytes do not give 1000");
  }
  ChunkPacker packer_{/*always=*/true};
};

TEST_F(HostileFrameTest, BytesOfNoCompressor) {
  ExpectRefused(Pattern(500, 1));
}
TEST_F(HostileFrameTest, MoreThanTheChunk) {
  ExpectRefused(FrameOf(1001));
}
TEST_F(HostileFrameTest, LessThanTheChunk) {
  ExpectRefused(FrameOf(999));
}
TEST_F(HostileFrameTest, ARepeatedOneIsReadAndDropped) {
  const auto frame = FrameOf(1000);
  std::vector<std::byte> bytes;
  for (const uint64_t seq : {1, 1, 2}) {
    const auto chunk = Packed(seq, static_cast<uint32_t>(frame.size()), frame);
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  ASSERT_TRUE(SendAll(*lane_, bytes, In(kLong)).ok());
  ASSERT_TRUE(link_->WaitChunks(2, In(kLong)).ok());
  EXPECT_EQ(recorder_.chunks, 2u);
}

}  // namespace
}  // namespace farcall::test
