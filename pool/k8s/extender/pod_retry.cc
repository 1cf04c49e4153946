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

PodRetry::PodRetry(ApiClient* api, const pool::PoolAddress& pool,
                   std::function<Status(const Pod&)> fits)
    : api_(api),
      fits_(std::move(fits)),
      follower_(pool, {kPause, kRetryPause}, [this](bool) { return Work(); }) {}

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
    const bool is_much = ++looks % kLooksAtOnce == 0;
    if (!follower_.Sleep(is_much ? kPause : std::chrono::seconds(0))) return false;
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

HostFollower::Next PodRetry::Work() {
  const Result<bool> has_room = HasRoom(Distinct());
  Status done = has_room.status();
  if (done.ok() && *has_room) done = Touch();
  if (!done.ok() && done.message() != said_)
    kProcess.Warn("pods that wait are not tried again at once: " + done.message());
  said_ = done.message();
  return done.ok() ? HostFollower::Next::kWait : HostFollower::Next::kRetry;
}

}  // namespace farcall::k8s
