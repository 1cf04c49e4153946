// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/side_queue.h"

#include <algorithm>

namespace farcall::server {

void Footprint::Add(const Footprint& other) {
  everything |= other.everything;
  default_stream |= other.default_stream;
  blocking_stream |= other.blocking_stream;
  streams.insert(streams.end(), other.streams.begin(), other.streams.end());
  events.insert(events.end(), other.events.begin(), other.events.end());
}

// The default stream waits for blocking streams and they for it, in every context alike: a wait too
// many does no harm.
bool Footprint::Touches(const StreamState& stream) const {
  return everything || (default_stream && stream.blocking) ||
         (blocking_stream && stream.is_default) ||
         std::find(streams.begin(), streams.end(), stream.key) != streams.end();
}

bool Footprint::TouchesEvent(uint64_t wire) const {
  return everything || std::find(events.begin(), events.end(), wire) != events.end();
}

void Footprint::Clear() {
  everything = default_stream = blocking_stream = false;
  streams.clear();
  events.clear();
}

void Turn::Retry() {
  touched.Clear();
  awaits_bytes = blocked = false;
}

void Turn::Reset() {
  chunks_sent = progress = 0;
  kept = nullptr;
  Retry();
}

void SideQueue::Push(std::vector<std::byte> record, Turn turn) {
  ahead_.Add(turn.touched);
  bytes_ += record.size();
  entries_.push_back({std::move(record), std::move(turn)});
}

}  // namespace farcall::server
