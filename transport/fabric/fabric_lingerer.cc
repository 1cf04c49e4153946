// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/fabric_lingerer.h"

#include <utility>

namespace farcall {
namespace {

constexpr auto kPause = std::chrono::milliseconds(5);

}  // namespace

FabricLingerer& FabricLingerer::OfProcess() {
  static auto* lingerer = new FabricLingerer;
  return *lingerer;
}

void FabricLingerer::Keep(FabricEndPointer end) {
  FabricEndPointer dropped;
  std::lock_guard lock(mutex_);
  if (!thread_.started() && !thread_.Start("farcall-linger", &FabricLingerer::Run, this)) {
    dropped = std::move(end);
    return;
  }
  if (kept_.size() >= kMaxEnds) {
    dropped = std::move(kept_.front().end);
    kept_.pop_front();
  }
  kept_.push_back({std::move(end), Clock::now() + kLimit});
  changed_.notify_all();
}

void FabricLingerer::DropAll() {
  std::deque<Kept> dropped;
  std::unique_lock lock(mutex_);
  dropped.swap(kept_);
  while (going_ != 0) changed_.wait(lock);
}

size_t FabricLingerer::count() {
  std::lock_guard lock(mutex_);
  return kept_.size() + going_;
}

void FabricLingerer::Look(std::deque<Kept>* gone) {
  const Clock::time_point now = Clock::now();
  for (size_t i = kept_.size(); i != 0; --i) {
    Kept kept = std::move(kept_.front());
    kept_.pop_front();
    kept.end->Progress();
    const bool is_needed = kept.end->HasUnread() && kept.end->failure().ok() && now < kept.until;
    (is_needed ? kept_ : *gone).push_back(std::move(kept));
  }
}

void FabricLingerer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (kept_.empty()) {
      changed_.wait(lock);
      continue;
    }
    std::deque<Kept> gone;
    Look(&gone);
    going_ = gone.size();
    lock.unlock();
    gone.clear();  // some fabrics take a while
    lock.lock();
    going_ = 0;
    changed_.notify_all();
    if (!kept_.empty()) changed_.wait_until(lock, Clock::now() + kPause);
  }
}

}  // namespace farcall
