// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/list_watch.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr char kPage[] = "500";
constexpr seconds kLongestPause{30};

}  // namespace

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (unsigned char c : text) {
    char code[4];
    std::snprintf(code, sizeof(code), "%%%02X", c);
    escaped += std::isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : code;
  }
  return escaped;
}

Status ListObjects(ApiClient* api, const ObjectList& list,
                   const std::function<Status(const Json&)>& on_object, std::string* version) {
  std::string after;
  do {
    ApiAnswer answer;
    FARCALL_TRY(api->Get(list.path + "?limit=" + kPage +
                             (list.query.empty() ? "" : "&" + list.query) +
                             (after.empty() ? "" : "&continue=" + Escaped(after)),
                         &answer));
    auto items = answer.body.is_object() ? answer.body.find("items") : answer.body.end();
    if (!answer.body.is_object() || items == answer.body.end() || !items->is_array())
      return {Code::kMalformed, "API server: a list of " + list.noun + " without items"};
    for (const Json& item : *items) FARCALL_TRY(on_object(item));
    *version = TextAt(answer.body, "metadata", "resourceVersion");
    after = TextAt(answer.body, "metadata", "continue");
  } while (!after.empty());
  return {};
}

void ListWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ListWatch::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  api_->Stop();
  if (thread_.joinable()) thread_.join();
}

bool ListWatch::is_stopped() {
  std::lock_guard lock(mutex_);
  return is_stopped_;
}

bool ListWatch::Take(const Json& event, std::string* version, bool* is_gone, Status* wrong) {
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
  if (is_stopped()) return false;
  *wrong = type == "DELETED" ? sink_->Remove(*object) : sink_->Put(*object);
  return wrong->ok();
}

Status ListWatch::Follow(std::string* version, bool* is_gone) {
  ApiAnswer answer;
  Status wrong;
  Status watched = api_->Watch(
      what_.path + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=300" +
          (what_.query.empty() ? "" : "&" + what_.query) + "&resourceVersion=" + Escaped(*version),
      [&](const Json& event) { return Take(event, version, is_gone, &wrong); }, &answer);
  if (answer.status == 410) *is_gone = true;
  return wrong.ok() ? watched : wrong;
}

void ListWatch::Tell(const Status& why) {
  if (!why.ok() && why.message() != said_) sink_->Lost(why);
  said_ = why.message();
}

void ListWatch::Pause() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, pause_, [this] { return is_stopped_; });
  pause_ = std::min(pause_ * 2, kLongestPause);
}

Status ListWatch::FollowAll(std::string* version) {
  while (true) {
    const auto began = std::chrono::steady_clock::now();
    bool is_gone = false;
    Status done = Follow(version, &is_gone);
    if (is_stopped()) return {};
    if (is_gone)
      return {Code::kTimeout, "API server: it no longer knows version " + *version + " of " +
                                  what_.noun + " (410); they are listed again"};
    if (done.code() == Code::kUnavailable) {  // it goes on where it broke off
      Tell(done);
      Pause();
      if (is_stopped()) return {};
      continue;
    }
    if (!done.ok()) return done;
    pause_ = kFirstPause;
    // One that ends at once, again and again, is no watch.
    if (std::chrono::steady_clock::now() - began < kFirstPause) return {};
  }
}

void ListWatch::Run() {
  while (!is_stopped()) {
    std::string version;
    sink_->Begin();
    Status done = ListObjects(
        api_, what_, [this](const Json& object) { return sink_->Put(object); }, &version);
    if (done.ok()) {
      said_.clear();
      sink_->Synced();
      done = FollowAll(&version);
    }
    if (is_stopped()) return;
    Tell(done);
    Pause();
  }
}

}  // namespace farcall::k8s
