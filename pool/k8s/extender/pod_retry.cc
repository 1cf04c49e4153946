// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/extender/pod_retry.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "pool/k8s/process/process.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"extender"};
constexpr size_t kMaxWaiting = 8192;
constexpr size_t kLooksAtOnce = 64;
constexpr std::chrono::seconds kPause{1}, kRetryPause{5};
constexpr std::chrono::minutes kWaits{10};

// What two pods have in common that fit or do not fit together.
std::string AskOf(const Pod& pod) {
  std::string ask = pod.space;
  for (const auto* table : {&pod.annotations, &pod.asked})
    for (const auto& [name, value] : *table) ask += '\0' + name + '\0' + value;
  return ask;
}

}  // namespace

void PodRetry::Start() {
  running_ = std::thread([this] { Run(); });
  listening_ = std::thread([this] { Listen(); });
}

void PodRetry::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  watch_.Stop();
  for (std::thread* thread : {&running_, &listening_})
    if (thread->joinable()) thread->join();
}

void PodRetry::Add(const Pod& pod) {
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (waiting_.size() >= kMaxWaiting && waiting_.count(pod.uid) == 0)
    waiting_.erase(std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& one, const auto& other) { return one.second.asked < other.second.asked; }));
  waiting_[pod.uid] = {pod, now};
}

void PodRetry::Remove(const std::string& uid) {
  std::lock_guard lock(mutex_);
  waiting_.erase(uid);
}

// That a host has changed is enough: the pool is asked then for what waits.
void PodRetry::Listen() {
  while (true) {
    (void)watch_.Follow("/v1/hosts?watch=1", [this](const std::string&, const std::string&) {
      {
        std::lock_guard lock(mutex_);
        is_woken_ = true;
      }
      wake_.notify_all();
      return true;
    });
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kRetryPause, [this] { return is_stopped_; })) return;
  }
}

std::vector<Pod> PodRetry::Distinct() {
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  std::set<std::string> seen;
  std::vector<Pod> pods;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (now - at->second.asked > kWaits) {
      at = waiting_.erase(at);
      continue;
    }
    if (seen.insert(AskOf(at->second.pod)).second) pods.push_back(at->second.pod);
    ++at;
  }
  return pods;
}

Result<bool> PodRetry::HasRoom(const std::vector<Pod>& pods) {
  size_t looks = 0;
  for (const Pod& pod : pods) {
    const Status fits = fits_(pod);
    if (fits.ok()) return true;
    if (fits.code() == Code::kUnavailable) return fits;
    std::unique_lock lock(mutex_);
    if (++looks % kLooksAtOnce == 0) wake_.wait_for(lock, kPause, [this] { return is_stopped_; });
    if (is_stopped_) return false;
  }
  return false;
}

Status PodRetry::Touch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const nlohmann::json patch = {
      {"metadata", {{"annotations", {{kRoomAnnotation, std::to_string(now.count())}}}}}};
  const auto asked = Clock::now();
  ApiAnswer answer;
  FARCALL_TRY(api_->Write("PATCH", kRoomPath, patch, &answer, "application/merge-patch+json"));
  std::lock_guard lock(mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end();)
    at = at->second.asked <= asked ? waiting_.erase(at) : std::next(at);
  return {};
}

void PodRetry::Run() {
  bool is_late = false;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      auto is_called = [this] { return is_woken_ || is_stopped_; };
      if (is_late)
        wake_.wait_for(lock, kRetryPause, is_called);
      else
        wake_.wait(lock, is_called);
      if (is_stopped_) return;
      is_woken_ = false;
    }
    const Result<bool> has_room = HasRoom(Distinct());
    Status done = has_room.status();
    if (done.ok() && *has_room) done = Touch();
    is_late = !done.ok();
    if (is_late && done.message() != said_)
      kProcess.Warn("pods that wait are not tried again at once: " + done.message());
    said_ = done.message();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kPause, [this] { return is_stopped_; })) return;
  }
}

}  // namespace farcall::k8s
