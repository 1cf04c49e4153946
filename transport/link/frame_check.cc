// SPDX-License-Identifier: Apache-2.0
#include "transport/link/frame_check.h"

#include <cstdio>

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
  if (header.magic != kFrameMagic) {
    return Malformed("frame: magic", header.magic, "FCB1");
  }
  if (header.bytes < sizeof(FrameHeader) || header.bytes > kMaxFrameBytes ||
      header.bytes % 8 != 0) {
    return Malformed("frame: bytes", header.bytes, "a multiple of 8 from 48 to 1048576");
  }
  if (header.flags != 0) {
    return Malformed("frame: flags", header.flags, "0");
  }
  bool has_records = header.bytes != sizeof(FrameHeader);
  if (header.seq == 0 && (header.records != 0 || has_records)) {
    return Malformed("frame: records outside the log", header.records, "0 (seq 0 carries none)");
  }
  if (header.seq != 0 && header.records == 0) {
    return Malformed("frame: records", header.records, "1 or more");
  }
  return {};
}

Status CheckChunkHeader(const ChunkHeader& header) {
  if (header.magic != kChunkMagic) {
    return Malformed("chunk: magic", header.magic, "FCC1");
  }
  if (header.bytes == 0 || header.bytes > kMaxChunkBytes) {
    return Malformed("chunk: bytes", header.bytes, "from 1 to 1048576");
  }
  if (header.seq == 0) {
    return Malformed("chunk: seq", header.seq, "1 or more");
  }
  if (header.offset > UINT64_MAX - header.bytes) {
    return Malformed("chunk: offset", header.offset, "one whose end fits 64 bits");
  }
  return {};
}

namespace {

uint32_t SumOf(const FrameHeader& header, std::span<const std::byte> frame) {
  FrameHeader zeroed = header;
  zeroed.crc32c = 0;
  return Crc32c(0, std::as_bytes(std::span(&zeroed, 1)), frame.subspan(sizeof(FrameHeader)));
}

}  // namespace

bool HasRightSum(const FrameHeader& header, std::span<const std::byte> frame) {
  return header.crc32c == 0 || header.crc32c == SumOf(header, frame);
}

Status CheckFrameSum(const FrameHeader& header, std::span<const std::byte> frame) {
  if (HasRightSum(header, frame)) {
    return {};
  }
  char right[32];
  std::snprintf(right, sizeof(right), "0x%x by its bytes", SumOf(header, frame));
  return Malformed("frame: crc32c", header.crc32c, right);
}

}  // namespace farcall
