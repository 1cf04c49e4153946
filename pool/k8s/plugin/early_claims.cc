// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/early_claims.h"

#include <utility>

namespace farcall::k8s {

namespace {

using std::chrono::seconds;

constexpr int kThreads = 4;
constexpr size_t kMaxJobs = 1024;
// The pool ends a claim that nobody uses or renews after 120 s at first, and the keeper renews all
// every 60 s. An older one may have ended, so it is looked up then.
constexpr seconds kFresh{30};

std::string KeyOf(const PodContainer& container) {
  return container.uid + ":" + container.container;
}

}  // namespace

void EarlyClaims::Start() {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

void EarlyClaims::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void EarlyClaims::Begin(const Pod& pod) {
  if (pod.node != node_ || pod.is_over || pod.has_init || pod.has_allocation) return;
  std::lock_guard lock(mutex_);
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const Stage stage = at->second.stage;
    const bool is_done = stage == Stage::kMade || stage == Stage::kTaken;
    at = is_done && Clock::now() - at->second.since > kFresh ? jobs_.erase(at) : std::next(at);
  }
  for (const auto& [name, limit] : pod.asked) {
    Result<Ask> ask = ReadAsk(pod, name);  // what is wrong is told when the container starts
    const uint32_t count = DeviceCount(limit);
    // A part of a GPU's memory has to be worked out first.
    if (!ask.ok() || !ask->claim.empty() || ask->memory_milli != 0 || count == 0) continue;
    if (jobs_.size() >= kMaxJobs) return;
    Job job;
    job.container = {pod.space, pod.name, pod.uid, name};
    job.ask = ask->request;
    job.ask.set_count(count);
    const std::string key = KeyOf(job.container);
    if (jobs_.emplace(key, std::move(job)).second) queue_.push_back(key);
  }
  changed_.notify_all();
}

std::optional<ContainerClaim> EarlyClaims::Take(const PodContainer& container,
                                                Clock::time_point deadline,
                                                const std::function<bool()>& is_cancelled) {
  const std::string key = KeyOf(container);
  std::unique_lock lock(mutex_);
  while (true) {
    auto at = jobs_.find(key);
    if (at == jobs_.end()) {
      // The node's watch may tell of the pod only now.
      if (jobs_.size() >= kMaxJobs) return std::nullopt;
      at = jobs_.try_emplace(key).first;
    }
    Job& job = at->second;
    if (job.stage != Stage::kRunning) {
      const bool is_fresh = job.stage == Stage::kMade && Clock::now() - job.since <= kFresh;
      job.stage = Stage::kTaken;
      job.since = Clock::now();
      const ContainerClaim made = std::exchange(job.made, {});
      return is_fresh ? std::optional(made) : std::nullopt;
    }
    if (is_stopped_ || is_cancelled() || Clock::now() >= deadline) return std::nullopt;
    changed_.wait_until(lock, std::min(deadline, Clock::now() + ClaimKeeper::kCancelPause));
  }
}

void EarlyClaims::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopped_ || !queue_.empty(); });
    if (is_stopped_) return;
    const std::string key = std::move(queue_.front());
    queue_.pop_front();
    auto at = jobs_.find(key);
    if (at == jobs_.end() || at->second.stage != Stage::kQueued) continue;
    at->second.stage = Stage::kRunning;
    const PodContainer container = at->second.container;
    const pool::v1::ClaimRequest ask = at->second.ask;
    lock.unlock();
    Result<ContainerClaim> made = make_(container, ask);
    lock.lock();
    at = jobs_.find(key);
    // Whoever waits for it finds out why there is none.
    if (!made.ok()) {
      jobs_.erase(at);
    } else {
      at->second.stage = Stage::kMade;
      at->second.made = std::move(*made);
      at->second.since = Clock::now();
    }
    changed_.notify_all();
  }
}

}  // namespace farcall::k8s
