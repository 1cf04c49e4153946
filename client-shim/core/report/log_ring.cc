// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/report/log_ring.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "client-shim/core/report/fork_lock.h"

namespace farcall::client {

namespace {

constexpr std::string_view kCut = "farcall: earlier messages are left out\n";

struct Ring {
  ForkLock mutex;
  std::deque<std::string> lines;
  size_t bytes = 0;
  uint32_t first = 0;  // number of lines.front()
  std::map<uint64_t, std::shared_ptr<LogListener>> listeners;
  uint64_t last_id = 0;
};

// Never destroyed: libraries log while the process ends.
Ring& TheRing() {
  static auto* ring = new Ring;
  return *ring;
}

}  // namespace

void KeepLogLine(LogLevel level, std::string_view line) {
  Ring& ring = TheRing();
  std::map<uint64_t, std::shared_ptr<LogListener>> listeners;
  std::string kept;
  {
    std::lock_guard lock(ring.mutex);
    ring.lines.emplace_back(line);
    for (char& c : ring.lines.back())
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // an entry is one line
    kept = ring.lines.back();
    ring.bytes += line.size() + 1;
    while (ring.bytes > kLogRingBytes) {
      ring.bytes -= ring.lines.front().size() + 1;
      ring.lines.pop_front();
      ++ring.first;
    }
    listeners = ring.listeners;
  }
  // Outside the lock: a listener may register, dump or call CUDA.
  for (const auto& [id, listener] : listeners) (*listener)(level, kept);
}

uint32_t LogEnd() {
  Ring& ring = TheRing();
  std::lock_guard lock(ring.mutex);
  return ring.first + static_cast<uint32_t>(ring.lines.size());
}

uint32_t LogBegin() {
  Ring& ring = TheRing();
  std::lock_guard lock(ring.mutex);
  return ring.first;
}

std::string LogLinesFrom(uint32_t from, size_t room, uint32_t* next) {
  Ring& ring = TheRing();
  std::lock_guard lock(ring.mutex);
  auto count = static_cast<uint32_t>(ring.lines.size());
  *next = ring.first + count;
  uint32_t wanted = *next - from;  // counts wrap
  bool cut = wanted > count;
  if (cut) wanted = count;
  size_t bytes = 0;
  for (uint32_t i = count - wanted; i < count; ++i) bytes += ring.lines[i].size() + 1;
  while (wanted != 0 && bytes + (cut ? kCut.size() : 0) > room) {
    bytes -= ring.lines[count - wanted].size() + 1;
    --wanted;
    cut = true;
  }
  std::string text;
  if (wanted == 0) return text;
  if (cut) text += kCut;
  for (uint32_t i = count - wanted; i < count; ++i) text += ring.lines[i] + "\n";
  return text;
}

uint64_t AddLogListener(LogListener listener) {
  Ring& ring = TheRing();
  std::lock_guard lock(ring.mutex);
  ring.listeners[++ring.last_id] = std::make_shared<LogListener>(std::move(listener));
  return ring.last_id;
}

bool RemoveLogListener(uint64_t id) {
  Ring& ring = TheRing();
  std::lock_guard lock(ring.mutex);
  return ring.listeners.erase(id) != 0;
}

}  // namespace farcall::client
