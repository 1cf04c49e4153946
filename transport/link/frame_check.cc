// SPDX-License-Identifier: Apache-2.0
#include "transport/link/frame_check.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "proto/crc32c.h"

namespace farcall {
namespace {

Status Malformed(const char* what, uint64_t value, const char* right) {
  char text[160];
  std::snprintf(text, sizeof(text), "%s %llu (0x%llx), right is %s", what,
                static_cast<unsigned long long>(value), static_cast<unsigned long long>(value),
                right);
  return {Code::kMalformed, text};
}

}  // namespace

Status CheckFrameHeader(const FrameHeader& header) {
  if (header.magic != kFrameMagic) return Malformed("frame: magic", header.magic, "FCB1");
  if (header.bytes < sizeof(FrameHeader) || header.bytes > kMaxFrameBytes || header.bytes % 8 != 0)
    return Malformed("frame: bytes", header.bytes, "a multiple of 8 from 48 to 1048576");
  if (header.flags > (header.seq == 0 ? kFrameAsks : 0)) {
    return Malformed("frame: flags", header.flags,
                     header.seq == 0 ? "0, or 1 (asks)" : "0 (only seq 0 asks)");
  }
  bool has_records = header.bytes != sizeof(FrameHeader);
  if (header.seq == 0 && (header.records != 0 || has_records))
    return Malformed("frame: records outside the log", header.records, "0 (seq 0 carries none)");
  if (header.seq != 0 && header.records == 0)
    return Malformed("frame: records", header.records, "1 or more");
  return {};
}

Status CheckChunkHeader(const ChunkHeader& header, bool may_be_packed) {
  if (header.magic != kChunkMagic && !(may_be_packed && header.magic == kPackedMagic))
    return Malformed("chunk: magic", header.magic, may_be_packed ? "FCC1 or FCZ1" : "FCC1");
  if (header.bytes == 0 || header.bytes > kMaxChunkBytes)
    return Malformed("chunk: bytes", header.bytes, "from 1 to 1048576");
  if (header.seq == 0) return Malformed("chunk: seq", header.seq, "1 or more");
  if (header.offset > UINT64_MAX - header.bytes)
    return Malformed("chunk: offset", header.offset, "one whose end fits 64 bits");
  return {};
}

Status CheckPackedHeader(const PackedHeader& packed, const ChunkHeader& header) {
  if (packed.bytes == 0 || packed.bytes >= header.bytes)
    return Malformed("chunk: compressed bytes", packed.bytes, "from 1 to less than the chunk's");
  if (packed.zero != 0) return Malformed("chunk: reserved field", packed.zero, "0");
  return {};
}

namespace {

uint32_t SumOf(const FrameHeader& header, std::span<const std::byte> frame) {
  FrameHeader zeroed = header;
  zeroed.crc32c = 0;
  return Crc32c(0, std::as_bytes(std::span(&zeroed, 1)), frame.subspan(sizeof(FrameHeader)));
}

}  // namespace

bool HasRightSum(const FrameHeader& header, std::span<std::byte> frame) {
  if (header.crc32c == 0) return true;
  std::memset(frame.data() + offsetof(FrameHeader, crc32c), 0, sizeof(header.crc32c));
  return header.crc32c == Crc32c(0, frame);
}

Status CheckFrameSum(const FrameHeader& header, std::span<const std::byte> frame) {
  const uint32_t sum = SumOf(header, frame);
  if (header.crc32c == 0 || header.crc32c == sum) return {};
  char right[32];
  std::snprintf(right, sizeof(right), "0x%x by its bytes", sum);
  return Malformed("frame: crc32c", header.crc32c, right);
}

}  // namespace farcall
