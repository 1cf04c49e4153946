// SPDX-License-Identifier: Apache-2.0
// What the client knows of an event's latest recording; the server says when one has completed.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace farcall::client {

struct Context;
struct Stream;

// The time between two recordings, once the server has told it with the second one's completion.
struct EventPair {
  uint64_t from = 0;  // handle
  uint32_t from_serial = 0, serial = 0;
  bool known = false;
  float ms = 0;
};

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
  // From where the latest recording is measured. Under `times_mutex`, as what follows.
  std::mutex times_mutex;
  EventPair pair;
  uint64_t asked_from = 0;  // the handle that the program last asked for in vain

  // For another handle; the server's word of the former one names a serial that is none of ours.
  void Renew() {
    foreign = false;
    recorded.store(false);
    capture_stream.store(nullptr);
    serial.store(0);
    pending_since.store(0);
    completed.store(0);
    std::lock_guard lock(times_mutex);
    pair = {};
    asked_from = 0;
  }
};

// The server's word; an event that is gone is nobody's concern.
//   Thread  the one that pumps
//   `ms`  since the recording that this one named, if that is known
void NoteCompleted(uint64_t event, uint32_t serial, CUresult status, std::optional<float> ms);

// ---- Times between events, by handle. A recording names another from which it is measured: the
// one the program asked for last, else the calling thread's timed recording before it.
struct RecordedBefore {
  uint64_t event = 0;
  uint32_t serial = 0;
};
// Of the event about to be recorded. None: nobody asks for times, or there is no such recording.
RecordedBefore MeasuredFrom(Event* event, uint64_t handle, RecordedBefore last_timed);
// After the recording was posted as `serial`.
void NoteMeasured(Event* event, RecordedBefore from, uint32_t serial);
// The program asks. Without a round trip, if the latest recordings of both are those measured.
std::optional<float> KnownTime(const Event& from, uint64_t from_handle, Event* to);
// It had to ask the server: the next recording of `to` is measured from there.
void NoteAsked(uint64_t from_handle, Event* to);

enum class EventProgress : uint8_t { kUnknown, kPending, kDone };
// Without a round trip. kUnknown: the server must be asked.
EventProgress ProgressOf(const Event& event, uint64_t evidence);

}  // namespace farcall::client
