// SPDX-License-Identifier: Apache-2.0
#include "pool/record/replay.h"

#include <algorithm>

namespace farcall::pool {

namespace {

constexpr size_t kMaxShown = 600;

std::string Short(const std::string& bytes) {
  v1::RecordedEffects effects;
  if (!effects.ParseFromString(bytes)) return "effects that cannot be read";
  std::string text = effects.ShortDebugString();
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text.empty() ? "nothing" : text;
}

}  // namespace

Result<Replayed> Replay(RecordReader& reader) {
  Core core = CoreOf(reader.snapshot());
  Replayed replayed;
  v1::RecordedEvent recorded;
  while (true) {
    const Result<bool> next = reader.Next(&recorded);
    if (!next.ok()) return next.status();
    if (!*next) return replayed;
    ++replayed.events;
    replayed.took = recorded.now_ms() - reader.snapshot().now_ms();
    const Result<Event> event = FromProto(recorded);
    if (!event.ok()) return event.status();
    const Effects effects = core.Apply(*event, recorded.now_ms());
    const std::string bytes = RecordedBytes(effects, core, recorded.now_ms());
    if (bytes == recorded.effects()) continue;
    replayed.differs = replayed.events;
    replayed.how = "recorded: " + Short(recorded.effects()) + "\nnow: " + Short(bytes);
    recorded.clear_effects();
    replayed.how += "\nof: " + recorded.ShortDebugString().substr(0, kMaxShown);
    return replayed;
  }
}

Result<Recorded> ReadAll(RecordReader& reader) {
  Recorded record;
  record.snapshot = reader.snapshot();
  v1::RecordedEvent event;
  while (true) {
    const Result<bool> next = reader.Next(&event);
    if (!next.ok()) return next.status();
    if (!*next) return record;
    record.events.push_back(event);
  }
}

}  // namespace farcall::pool
