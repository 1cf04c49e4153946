// SPDX-License-Identifier: Apache-2.0
// Records taken out of the log because bytes or room they use are still to come, and those behind
// them that touch the same streams or events. Everything else passes them by.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "server/state/objects/context_state.h"

namespace farcall::server {

// The streams and events a record names; what a later record must not overtake.
struct Footprint {
  bool everything = false;  // ordered behind all before it, and all behind it
  bool default_stream = false;
  bool blocking_stream = false;   // one the default stream waits for
  std::vector<uint64_t> streams;  // StreamState::key
  std::vector<uint64_t> events;   // wire handles

  void Add(const Footprint& other);
  void Clear();  // keeps the room
  bool empty() const { return !everything && streams.empty() && events.empty(); }
  bool Touches(const StreamState& stream) const;
  bool TouchesEvent(uint64_t wire) const;
};

// A record's turn, kept while it cannot go on.
struct Turn {
  uint64_t chunks_sent = 0;    // of its frame
  uint64_t progress = 0;       // of a record that is served in steps
  std::shared_ptr<void> kept;  // by its server function
  Footprint touched;
  bool awaits_bytes = false;  // of a stream others need not wait for
  bool blocked = false;       // by a record in the side queue

  // Before each try: what the last one noted is forgotten, what it has done is kept.
  void Retry();
  // For the next record; keeps the room.
  void Reset();
};

//   Thread  the issue thread
class SideQueue {
 public:
  struct Entry {
    std::vector<std::byte> bytes;  // the record, header included
    Turn turn;
  };

  bool empty() const { return entries_.empty(); }
  size_t bytes() const { return bytes_; }
  // What the record now being served must not overtake.
  const Footprint& ahead() const { return ahead_; }

  void Push(std::vector<std::byte> record, Turn turn);
  // Offers each entry in order; `serve` returns 1 if it is done, 0 if it stays, -1 to stop at once.
  // False: stopped.
  template <typename Serve>
  bool ServeAll(Serve serve) {
    ahead_ = {};
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      int served = serve(*entry);
      if (served < 0) return false;
      if (served == 0) {
        ahead_.Add(entry->turn.touched);
        ++entry;
        continue;
      }
      bytes_ -= entry->bytes.size();
      entry = entries_.erase(entry);
    }
    return true;
  }

 private:
  std::deque<Entry> entries_;
  size_t bytes_ = 0;
  Footprint ahead_;
};

}  // namespace farcall::server
