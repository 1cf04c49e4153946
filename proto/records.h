// SPDX-License-Identifier: Apache-2.0
// Walks the records of a frame a hostile peer may have written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "proto/status.h"
#include "proto/wire.h"

namespace farcall {

struct RecordView {
  RecordHeader header;              // a copy: the frame's bytes may be shared with the peer
  std::span<const std::byte> body;  // after the header, within the frame
};

// Yields each record once; stops for good at the first whose size lies.
//   for (RecordCursor at(records); at.Next(record);) { ... }   then at.Done() tells whether all
//   were sound
class RecordCursor {
 public:
  explicit RecordCursor(std::span<const std::byte> records) : left_(records) {}

  bool Next(RecordView& record) {
    if (left_.size() < sizeof(RecordHeader)) return false;
    std::memcpy(&record.header, left_.data(), sizeof(RecordHeader));
    uint32_t bytes = record.header.bytes;
    if (bytes < sizeof(RecordHeader) || bytes % 8 != 0 || bytes > left_.size()) return false;
    record.body = left_.subspan(sizeof(RecordHeader), bytes - sizeof(RecordHeader));
    left_ = left_.subspan(bytes);
    ++count_;
    return true;
  }
  uint32_t count() const { return count_; }
  bool Done() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  uint32_t count_ = 0;
};

// Checks that `records` holds exactly `count` sound records.
//   Errors  kMalformed, naming the record and its size
Status CheckRecords(std::span<const std::byte> records, uint32_t count);

}  // namespace farcall
