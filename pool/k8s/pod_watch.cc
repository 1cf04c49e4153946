// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/pod_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr size_t kMaxPods = 10'000;  // of one node; Kubernetes allows 110 unless told otherwise
constexpr char kPage[] = "500";
constexpr seconds kFirstPause{1}, kLongestPause{30};

// A version or a continuation as part of a query.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (unsigned char c : text) {
    char code[4];
    std::snprintf(code, sizeof(code), "%%%02X", c);
    escaped += std::isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : code;
  }
  return escaped;
}

}  // namespace

PodWatch::PodWatch(ApiClient* api, std::string node, std::function<void()> on_end)
    : api_(api), node_(std::move(node)), on_end_(std::move(on_end)) {}

PodWatch::~PodWatch() {
  Stop();
}

void PodWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PodWatch::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  api_->Stop();
  if (thread_.joinable()) thread_.join();
}

bool PodWatch::IsRunning(const std::string& uid) {
  std::lock_guard lock(mutex_);
  auto at = is_over_.find(uid);
  return at != is_over_.end() && !at->second;
}

Result<std::set<std::string>> PodWatch::CurrentUids() {
  std::map<std::string, Pod> pods;
  std::string version;
  FARCALL_TRY(List(&pods, &version));
  std::set<std::string> uids;
  for (const auto& [uid, pod] : pods)
    if (!pod.is_over) uids.insert(uid);
  return uids;
}

Result<Pod> PodWatch::Read(const std::string& space, const std::string& name) {
  if (!IsName(space) || !IsName(name))
    return Status(Code::kMalformed, "the kubelet names pod " + Quoted(space + "/" + name));
  ApiAnswer answer;
  FARCALL_TRY(api_->Get("/api/v1/namespaces/" + space + "/pods/" + name, &answer));
  return ReadPod(answer.body);
}

Status PodWatch::List(std::map<std::string, Pod>* pods, std::string* version) {
  std::string after;
  do {
    ApiAnswer answer;
    FARCALL_TRY(api_->Get("/api/v1/pods?fieldSelector=spec.nodeName%3D" + Escaped(node_) +
                              "&limit=" + kPage +
                              (after.empty() ? "" : "&continue=" + Escaped(after)),
                          &answer));
    auto items = answer.body.is_object() ? answer.body.find("items") : answer.body.end();
    if (!answer.body.is_object() || items == answer.body.end() || !items->is_array())
      return {Code::kMalformed, "API server: a list of pods without items"};
    for (const Json& item : *items) {
      Result<Pod> pod = ReadPod(item);
      if (!pod.ok()) return pod.status();
      if (pods->size() >= kMaxPods)
        return {Code::kMalformed, "API server: more than 10000 pods on one node"};
      pods->insert_or_assign(pod->uid, *pod);
    }
    *version = TextAt(answer.body, "metadata", "resourceVersion");
    after = TextAt(answer.body, "metadata", "continue");
  } while (!after.empty());
  return {};
}

bool PodWatch::Take(const Json& event, std::string* version, bool* is_gone) {
  auto type_at = event.find("type");
  auto object = event.find("object");
  if (type_at == event.end() || !type_at->is_string() || object == event.end() ||
      !object->is_object())
    return false;
  const auto type = type_at->get<std::string>();
  if (type == "ERROR") {
    auto code = object->find("code");
    *is_gone = code != object->end() && code->is_number_integer() && code->get<int64_t>() == 410;
    return false;
  }
  const std::string at = TextAt(*object, "metadata", "resourceVersion");
  if (!at.empty()) *version = at;
  if (type == "BOOKMARK") return true;
  Result<Pod> pod = ReadPod(*object);
  if (!pod.ok()) return false;
  const bool is_over = type == "DELETED" || pod->is_over;
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_ || (is_over_.size() >= kMaxPods && is_over_.count(pod->uid) == 0)) return false;
    if (type == "DELETED")
      is_over_.erase(pod->uid);
    else
      is_over_[pod->uid] = is_over;
  }
  if (is_over) on_end_();
  return true;
}

Status PodWatch::Follow(std::string* version, bool* is_gone) {
  ApiAnswer answer;
  Status watched = api_->Watch(
      "/api/v1/"
      "pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&fieldSelector=spec.nodeName%3D" +
          Escaped(node_) + "&resourceVersion=" + Escaped(*version),
      [&](const Json& event) { return Take(event, version, is_gone); }, &answer);
  if (answer.status == 410) *is_gone = true;
  return watched;
}

void PodWatch::Run() {
  seconds pause = kFirstPause;
  std::string said;
  while (true) {
    std::map<std::string, Pod> pods;
    std::string version;
    Status done = List(&pods, &version);
    if (done.ok()) {
      std::unique_lock lock(mutex_);
      is_over_.clear();
      for (const auto& [uid, pod] : pods) is_over_[uid] = pod.is_over;
      lock.unlock();
      said.clear();
      on_end_();  // what ended meanwhile
      for (bool is_gone = false; done.ok() && !is_gone;) {
        const auto began = std::chrono::steady_clock::now();
        done = Follow(&version, &is_gone);
        if (done.ok()) pause = kFirstPause;
        std::lock_guard stopped(mutex_);
        if (is_stopped_) return;
        // One that ends at once, again and again, is no watch.
        if (done.ok() && std::chrono::steady_clock::now() - began < kFirstPause) break;
      }
    }
    std::unique_lock lock(mutex_);
    if (is_stopped_) return;
    if (!done.ok() && done.message() != said) {
      said = done.message();
      std::fprintf(stderr, "farcall pool k8s plugin: %s\n",
                   Printable(said, kMaxMessageBytes).c_str());
    }
    wake_.wait_for(lock, pause, [this] { return is_stopped_; });
    if (is_stopped_) return;
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace farcall::k8s
