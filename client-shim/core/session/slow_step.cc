// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/slow_step.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "client-shim/core/session/session.h"
#include "sync/cond_var.h"

namespace farcall::client {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(1);
constexpr std::string_view kClear = "\r\033[K";

std::atomic<bool> g_is_wanted{true};

void Write(std::string_view text) {
  const int saved_errno = errno;
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  errno = saved_errno;
}

}  // namespace

void SetProgress(bool is_wanted) {
  g_is_wanted.store(is_wanted);
}

bool ShowsProgress() {
  static const bool is_terminal = [] {
    const char* kind = std::getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
  }();
  return is_terminal && g_is_wanted.load(std::memory_order_relaxed);
}

std::string SlowStepLine(const std::string& what, uint64_t total_bytes, uint64_t moved_bytes,
                         int64_t seconds) {
  char text[160];
  if (total_bytes == 0) {
    std::snprintf(text, sizeof(text), "farcall: %.80s, %lld s", what.c_str(),
                  static_cast<long long>(seconds));
    return text;
  }
  const bool is_large = total_bytes >= 1ull << 30;
  const double unit = is_large ? 1ull << 30 : 1ull << 20;
  std::snprintf(text, sizeof(text), "farcall: %.80s, %.*f of %.*f %s, %lld s", what.c_str(),
                is_large ? 1 : 0, static_cast<double>(std::min(moved_bytes, total_bytes)) / unit,
                is_large ? 1 : 0, static_cast<double>(total_bytes) / unit, is_large ? "GiB" : "MiB",
                static_cast<long long>(seconds));
  return text;
}

// Leaked, with its thread, which sleeps while there is no step. A forked child begins with a new
// one: the thread is not in it, and the lock may be held.
struct SlowStep::Board {
  struct Step {
    std::string what;
    uint64_t total_bytes = 0;
    std::function<uint64_t()> moved;
    Clock::time_point start;
  };
  std::mutex mutex;
  CondVar changed;
  std::map<uint64_t, Step> steps;  // the oldest first
  uint64_t last_id = 0;
  uint64_t shown = 0;  // the step whose line stands there; 0: none
  bool has_thread = false;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      if (steps.empty()) {
        changed.wait(lock);
        continue;
      }
      const Clock::time_point now = Clock::now(), begun = steps.begin()->second.start;
      if (now - begun < kPatience) {
        changed.wait_until(lock, begun + kPatience);
        continue;
      }
      Show(now);
      changed.wait_for(lock, kPatience);
    }
  }

  // The oldest. One of which no byte has moved waits for something else, as a copy from the device
  // does for the kernels ahead of it.
  void Show(Clock::time_point now) {
    for (const auto& [id, step] : steps) {
      const uint64_t moved = step.moved ? step.moved() : 0;
      if (now - step.start < kPatience || (step.total_bytes != 0 && moved == 0)) continue;
      shown = id;
      const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - step.start);
      Write("\r" + SlowStepLine(step.what, step.total_bytes, moved, waited.count()) + "\033[K");
      return;
    }
  }
};

SlowStep::Board* SlowStep::TheBoard() {
  static std::atomic<Board*> board{nullptr};
  [[maybe_unused]] static const int hooked =
      pthread_atfork(nullptr, nullptr, [] { board.store(nullptr); });
  Board* found = board.load();
  if (found != nullptr) return found;
  auto* fresh = new Board;
  if (board.compare_exchange_strong(found, fresh)) return fresh;
  delete fresh;
  return found;
}

SlowStep::SlowStep(std::string what, uint64_t total_bytes, std::function<uint64_t()> moved) {
  if (!ShowsProgress()) return;
  Board* board = TheBoard();
  std::lock_guard lock(board->mutex);
  if (!board->has_thread) {
    board->has_thread = StartThread("farcall-progress", [board] { board->Run(); });
    if (!board->has_thread) return;
  }
  board_ = board;
  id_ = ++board->last_id;
  board->steps[id_] = {std::move(what), total_bytes, std::move(moved), Clock::now()};
  if (board->steps.size() == 1) board->changed.notify_all();
}

SlowStep::~SlowStep() {
  if (board_ == nullptr) return;
  std::lock_guard lock(board_->mutex);
  board_->steps.erase(id_);
  if (board_->shown != id_) return;
  board_->shown = 0;
  Write(kClear);
}

}  // namespace farcall::client
