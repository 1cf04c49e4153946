// SPDX-License-Identifier: Apache-2.0
#include "server/session/gated_calls.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "generated/proto/call_info.h"

namespace farcall::server {

namespace {

uint64_t Mix(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9e3779b97f4a7c15u;
  return key ^ (key >> 29);
}

}  // namespace

uint64_t WorkKey(const RecordView& record) {
  const CallInfo& info = InfoOf(record.header.call);
  if (!info.TakesDeviceTime()) return 0;
  const size_t telling = std::min<size_t>(info.alike_bytes, record.body.size());
  uint64_t key = Mix(1, record.header.call);
  for (size_t at = 0; at < telling; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, record.body.data() + at, std::min(sizeof(word), telling - at));
    key = Mix(key, word);
  }
  if (info.alike_bytes == 0) key = Mix(key, std::bit_width(record.body.size()));
  return key | 1;
}

}  // namespace farcall::server
