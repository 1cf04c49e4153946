// SPDX-License-Identifier: Apache-2.0
// The objects of one kind, as the API server tells of them: a list, then a watch with bookmarks
// that goes on where it broke off; after 410 a list again.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "pool/k8s/api/api_client.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

struct ObjectList {
  std::string path;        // /api/v1/pods
  std::string query = "";  // fieldSelector=..., escaped; "": all
  std::string noun;        // for people: "pods"
};

// A version, a continuation or a name as part of a query.
std::string Escaped(const std::string& text);

// All of a list, page by page, and the list's version. Ends at the first error of `on_object`.
//   Errors  of ApiClient::Get; kMalformed (no list)
Status ListObjects(ApiClient* api, const ObjectList& list,
                   const std::function<Status(const nlohmann::json&)>& on_object,
                   std::string* version);

// Hears of the objects, by the watch's own thread. After an error of Put or Remove the list begins
// again, later.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  // A list begins: what is not put until Synced is no longer there.
  virtual void Begin() = 0;
  virtual Status Put(const nlohmann::json& object) = 0;
  virtual Status Remove(const nlohmann::json& object) = 0;
  virtual void Synced() = 0;
  // Nothing is heard now; told once for each reason.
  virtual void Lost(const Status& why) = 0;
};

class ListWatch final {
 public:
  // `api` is this watch's own, as far as watches go. All outlive it.
  ListWatch(ApiClient* api, ObjectList what, ObjectSink* sink)
      : api_(api), what_(std::move(what)), sink_(sink) {}
  ~ListWatch() { Stop(); }
  void Start();
  void Stop();

 private:
  void Run();
  // Watches, one after the other, until it has to be listed again. Why, if it is no watch's end.
  Status FollowAll(std::string* version);
  Status Follow(std::string* version, bool* is_gone);
  // False: the watch is over.
  bool Take(const nlohmann::json& event, std::string* version, bool* is_gone, Status* wrong);
  void Tell(const Status& why);
  // For twice as long as before, until a watch has gone well.
  void Pause();
  bool is_stopped();

  ApiClient* const api_;
  const ObjectList what_;
  ObjectSink* const sink_;
  std::mutex mutex_;
  CondVar wake_;
  bool is_stopped_ = false;
  // The thread's own.
  static constexpr std::chrono::seconds kFirstPause{1};
  std::chrono::seconds pause_ = kFirstPause;
  std::string said_;
  std::thread thread_;
};

}  // namespace farcall::k8s
