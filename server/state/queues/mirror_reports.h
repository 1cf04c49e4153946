// SPDX-License-Identifier: Apache-2.0
// What the device wrote to mirrored host memory, sent to the client: a little along with each word
// that work is done, the rest when it asks.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>

#include "server/memory/mirror_work.h"
#include "server/memory/mirrors.h"

namespace farcall::server {

class MirrorReports {
 public:
  using Push = std::function<void(std::span<const std::byte> body)>;  // a kMirrored

  MirrorReports(Mirrors& mirrors, Push push) : mirrors_(mirrors), push_(std::move(push)) {}

  // Work up to `order` that may write mirrored memory was put on the stream.
  void Submitted(uint64_t stream_key, uint64_t order) {
    if (mirrors_.bytes() != 0) work_.Submitted(stream_key, order);
  }
  void Reached(uint64_t stream_key, uint64_t order) {
    if (mirrors_.bytes() != 0) work_.Reached(stream_key, order);
  }
  // The stream has no work left.
  void Idle(uint64_t stream_key) { work_.Reached(stream_key, ~uint64_t{0}); }
  // Ahead of each word to the client that work is done: a little goes along; of much, or where
  // looking takes long, the client is told to ask.   Thread  any
  void Report();
  // Sends from `from` on, as much as may go at once; where to go on, 0: all is sent.
  //   Thread  the memory helper
  uint64_t SendFrom(uint64_t from);

 private:
  Mirrors& mirrors_;
  const Push push_;
  MirrorWork work_;
  std::mutex mutex_;  // of kMirrored: found and sent
};

}  // namespace farcall::server
