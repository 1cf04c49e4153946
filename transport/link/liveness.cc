// SPDX-License-Identifier: Apache-2.0
// Whether the peer is there: heartbeats, silence, and when neither is needed. A side that expects
// something of its peer asks for a sign of life each heartbeat, and a peer whose reading thread is
// at work says so by itself. While nothing is under way neither is sent: the transport finds out
// whether the peer is there.
#include <algorithm>
#include <string>
#include <utility>

#include "transport/link/link_core.h"

namespace farcall {
namespace {

using std::chrono::milliseconds;

constexpr auto kUnreadSlice = milliseconds(100);

}  // namespace

bool LinkCore::HasUnacknowledgedLocked() const {
  return tail_bytes_ != 0 || chunk_acked_ + 1 < chunk_next_;
}

// Service thread. True: nobody needs to know whether the peer is there.
bool LinkCore::FallIdleLocked(Clock::time_point now) {
  const bool may_be_idle = options_.idle_after_ms != 0;
  if (!may_be_idle || stirred_.exchange(false) || awaits_answer_ || HasUnacknowledgedLocked())
    stirred_at_ = now;
  const bool was_expecting = std::exchange(
      is_expecting_, now < stirred_at_ + milliseconds(options_.idle_after_ms) || !may_be_idle);
  if (is_expecting_ && !was_expecting) expecting_since_ = now;
  if (is_expecting_ || !reader_waits_ || backlog_) return false;
  is_idle_ = true;
  // Who stirs or stops to wait looks at is_idle_ behind that.
  if (stirred_ || !reader_waits_) is_idle_ = false;
  return is_idle_;
}

void LinkCore::EndIdle() {
  std::lock_guard lock(mutex_);
  EndIdleLocked();
}

void LinkCore::EndIdleLocked() {
  if (is_idle_.exchange(false)) {
    last_sent_ = Clock::now();  // the next heartbeat is one from here
    PokeService();
  }
}

// When to look again.
Clock::time_point LinkCore::TendLiveness(Lock& lock) {
  Clock::time_point now = Clock::now();
  if (FallIdleLocked(now)) return Clock::time_point::max();
  const auto heartbeat = milliseconds(options_.heartbeat_ms);
  Clock::time_point beat = last_sent_.load() + heartbeat;
  if (now >= beat) {
    control_wanted_ = true;
    ask_wanted_ = is_expecting_ && options_.idle_after_ms != 0;
    beat = now + heartbeat;
    lock.unlock();
    Drained drained = DrainLog();
    lock.lock();
    if (drained == Drained::kBlocked) backlog_ = true;
  }
  if (phase_ != Phase::kAttached) return now;
  return is_expecting_ ? std::min(beat, CheckSilence(now)) : beat;
}

// A link is lost when its peer says nothing and nothing of it waits unread (a reader that is busy
// is not a lost link). A server gives a silent client the whole grace: a debugger may hold it.
Clock::time_point LinkCore::CheckSilence(Clock::time_point now) {
  const uint32_t limit_ms =
      options_.is_client ? options_.silence_ms : std::max(options_.grace_ms, options_.silence_ms);
  const Clock::time_point since = std::max(last_heard_.load(), expecting_since_);
  const Clock::time_point due = since + milliseconds(limit_ms);
  if (now < due) return due;
  if (log_->WaitReadable(now)) return now + kUnreadSlice;
  const auto silent = std::chrono::duration_cast<milliseconds>(now - since).count();
  Status why(Code::kTimeout, log_->PeerName() + ": silent for " + std::to_string(silent) +
                                 " ms (limit " + std::to_string(limit_ms) + " ms)");
  if (options_.is_client)
    BreakLocked(why);
  else
    RequestCloseLocked({Code::kDisconnected, why.message()}, /*tell_peer=*/true);
  return now;
}

// On the thread that pumps. What it does between two waits may take any time, and its peer hears of
// the link by heartbeats then.
bool LinkCore::WaitReadable(Clock::time_point deadline, int wake_fd) {
  std::atomic<bool>& waits = wake_fd < 0 ? awaits_answer_ : reader_waits_;
  waits = true;
  const bool is_readable = reader_->WaitReadable(deadline, wake_fd);
  waits = false;
  if (is_idle_) [[unlikely]]
    EndIdle();
  return is_readable;
}

}  // namespace farcall
