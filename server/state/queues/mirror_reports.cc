// SPDX-License-Identifier: Apache-2.0
#include "server/state/queues/mirror_reports.h"

#include <cstring>

#include "proto/codec.h"

namespace farcall::server {

namespace {
constexpr size_t kMaxPushedBytes = 256u << 10;
constexpr size_t kMirroredBytes = 512u << 10;   // of a record that was asked for
constexpr size_t kMaxAnsweredBytes = 4u << 20;  // then the client acknowledges, and asks again

// kMirrored: {u64 more, runs}.
Builder EmptyMirrored() {
  Builder body;
  body.Put<uint64_t>(0);
  return body;
}
}  // namespace

void MirrorReports::Report() {
  if (mirrors_.bytes() == 0) return;
  std::lock_guard lock(mutex_);  // whoever finds nothing left comes after what was found
  if (!work_.Take()) return;
  Builder body = EmptyMirrored();
  uint64_t more = 1;
  if (mirrors_.bytes() <= Mirrors::kMaxLookedBytes)
    more = mirrors_.Collect(0, kMaxPushedBytes, &body) != 0 ? 1 : 0;
  if (more != 0) {
    work_.PutBack();
    std::memcpy(body.mutable_bytes().data(), &more, sizeof(more));
  }
  if (more != 0 || body.bytes().size() > sizeof(more)) push_(body.bytes());
}

uint64_t MirrorReports::SendFrom(uint64_t from) {
  uint64_t next = from;
  for (size_t sent_bytes = 0; sent_bytes < kMaxAnsweredBytes;) {
    Builder body = EmptyMirrored();
    std::lock_guard lock(mutex_);
    if (from == 0 && sent_bytes == 0) work_.Take();  // from here on it is seen
    next = mirrors_.Collect(next, kMirroredBytes, &body);
    if (body.bytes().size() > sizeof(uint64_t)) push_(body.bytes());
    sent_bytes += body.bytes().size();
    if (next == 0) break;
  }
  return next;
}

}  // namespace farcall::server
