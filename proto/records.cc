// SPDX-License-Identifier: Apache-2.0
#include "proto/records.h"

namespace farcall {

Status CheckRecords(std::span<const std::byte> records, uint32_t count) {
  RecordCursor cursor(records);
  RecordView record;
  size_t used_bytes = 0;
  while (cursor.Next(record)) used_bytes += record.header.bytes;
  if (!cursor.Done()) {
    size_t left_bytes = records.size() - used_bytes;
    std::string claims = "less than a header";
    if (left_bytes >= sizeof(RecordHeader)) claims = std::to_string(record.header.bytes);
    return {Code::kMalformed, "frame: record " + std::to_string(cursor.count() + 1) + " claims " +
                                  claims + " bytes, " + std::to_string(left_bytes) +
                                  " are left (a multiple of 8 from 16 up is right)"};
  }
  if (cursor.count() != count) {
    return {Code::kMalformed, "frame: header counts " + std::to_string(count) +
                                  " records, it holds " + std::to_string(cursor.count())};
  }
  return {};
}

}  // namespace farcall
