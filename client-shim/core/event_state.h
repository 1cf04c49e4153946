// SPDX-License-Identifier: Apache-2.0
// What the client knows of an event's latest recording; the server says when one has completed.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace farcall::client {

struct Context;
struct Stream;

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  bool foreign = false;  // another process's: only the server knows of its recordings
  std::atomic<bool> recorded{false};
  std::atomic<Stream*> capture_stream{nullptr};  // recorded by this stream while it captured
  // The latest recording's serial; 0: not known, ask the server.
  std::atomic<uint32_t> serial{0};
  // Session::evidence() when it was last known not to have completed.
  std::atomic<uint64_t> pending_since{0};
  // The latest recording the server has told of: status << 32 | serial.
  std::atomic<uint64_t> completed{0};

  // For another handle; the server's word of the former one names a serial that is none of ours.
  void Renew() {
    foreign = false;
    recorded.store(false);
    capture_stream.store(nullptr);
    serial.store(0);
    pending_since.store(0);
    completed.store(0);
  }
};

// The server's word; an event that is gone is nobody's concern.
//   Thread  the one that pumps
void NoteCompleted(uint64_t event, uint32_t serial, CUresult status);

enum class EventProgress : uint8_t { kUnknown, kPending, kDone };
// Without a round trip. kUnknown: the server must be asked.
EventProgress ProgressOf(const Event& event, uint64_t evidence);

}  // namespace farcall::client
