// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/pods/pod_watch.h"

#include <nlohmann/json.hpp>

#include "proto/log_line.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSeen = 200'000;
constexpr size_t kMaxPods = 10'000;  // of one node; Kubernetes allows 110 unless told otherwise

Status TooMany() {
  return {Code::kMalformed, "API server: more than 10000 pods on one node"};
}

}  // namespace

PodWatch::PodWatch(ApiClient* api, const std::string& node, std::function<void()> on_end,
                   std::function<void(const Pod&)> on_new)
    : api_(api),
      pods_{"/api/v1/pods", "fieldSelector=spec.nodeName%3D" + Escaped(node), "pods"},
      on_end_(std::move(on_end)),
      on_new_(std::move(on_new)),
      watch_(api, pods_, this) {}

PodWatch::~PodWatch() {
  Stop();
}

bool PodWatch::IsRunning(const std::string& uid) {
  std::lock_guard lock(mutex_);
  auto at = is_over_.find(uid);
  return at != is_over_.end() && !at->second;
}

bool PodWatch::WasHere(const std::string& uid) {
  std::lock_guard lock(mutex_);
  return seen_.count(uid) != 0;
}

bool PodWatch::Note(const std::string& uid) {
  if (seen_.size() >= kMaxSeen) seen_.clear();
  return seen_.insert(uid).second;
}

Result<std::set<std::string>> PodWatch::CurrentUids() {
  std::set<std::string> uids;
  std::string version;
  size_t count = 0;
  FARCALL_TRY(ListObjects(
      api_, pods_,
      [&](const Json& object) -> Status {
        Result<Pod> pod = ReadPod(object);
        if (!pod.ok()) return pod.status();
        if (++count > kMaxPods) return TooMany();
        if (!pod->is_over) uids.insert(pod->uid);
        return {};
      },
      &version));
  return uids;
}

Result<Pod> PodWatch::Read(const std::string& space, const std::string& name) {
  if (!IsName(space) || !IsName(name))
    return Status(Code::kMalformed, "the kubelet names pod " + Quoted(space + "/" + name));
  ApiAnswer answer;
  FARCALL_TRY(api_->Get("/api/v1/namespaces/" + space + "/pods/" + name, &answer));
  return ReadPod(answer.body);
}

void PodWatch::Begin() {
  listed_.clear();
  is_listing_ = true;
}

Status PodWatch::Put(const Json& object) {
  Result<Pod> pod = ReadPod(object);
  if (!pod.ok()) return pod.status();
  if (is_listing_) {
    if (listed_.size() >= kMaxPods) return TooMany();
    listed_[pod->uid] = pod->is_over;
    return {};
  }
  bool is_new;
  {
    std::lock_guard lock(mutex_);
    const bool is_known = is_over_.count(pod->uid) != 0;
    if (is_over_.size() >= kMaxPods && !is_known) return TooMany();
    is_over_[pod->uid] = pod->is_over;
    is_new = Note(pod->uid) && !is_known;
  }
  if (pod->is_over) on_end_();
  if (is_new && !pod->is_over) on_new_(*pod);
  return {};
}

Status PodWatch::Remove(const Json& object) {
  Result<Pod> pod = ReadPod(object);
  if (!pod.ok()) return pod.status();
  {
    std::lock_guard lock(mutex_);
    is_over_.erase(pod->uid);
    Note(pod->uid);
  }
  on_end_();
  return {};
}

void PodWatch::Synced() {
  is_listing_ = false;
  {
    std::lock_guard lock(mutex_);
    is_over_ = std::move(listed_);
    for (const auto& [uid, over] : is_over_) Note(uid);
  }
  listed_.clear();
  on_end_();  // what ended meanwhile
}

void PodWatch::Lost(const Status& why) {
  LogLine(LogSeverity::kWarn, "k8s-plugin", why.message());
}

}  // namespace farcall::k8s
