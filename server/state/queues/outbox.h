// SPDX-License-Identifier: Apache-2.0
// What the worker says: replies, errors and pushed messages, gathered into frames of the log.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "proto/wire.h"
#include "transport/link.h"

namespace farcall::server {

// Appending never blocks; a frame leaves at Flush or when it is full.
//   Thread  any; records leave in the order they were appended
class Outbox {
 public:
  explicit Outbox(Link& link) : link_(link) {}

  // A reply is {status, 0, out}. One too long for a frame is answered with INVALID_VALUE instead.
  void Reply(const RecordHeader& request, CUresult status, std::span<const std::byte> out);
  // A post that failed.
  void Error(const RecordHeader& request, CUresult status, std::string_view detail);
  void Push(SessionCall call, std::span<const std::byte> body);
  void Flush();

 private:
  void Append(uint16_t call, uint16_t flags, uint32_t serial, std::span<const std::byte> head,
              std::span<const std::byte> tail);
  void FlushLocked();

  Link& link_;
  std::mutex mutex_;
  std::unique_ptr<FrameBuffer> frame_;
};

}  // namespace farcall::server
