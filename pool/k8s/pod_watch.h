// SPDX-License-Identifier: Apache-2.0
// The pods of one node, as the API server tells of them.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "pool/k8s/api_client.h"
#include "pool/k8s/pod.h"

namespace farcall::k8s {

// A list, then a watch with bookmarks that goes on where it broke off; after 410 a list again.
//   Thread  any
class PodWatch final {
 public:
  // `on_end`: a pod is over or deleted; called by the watch's own thread, which starts with Start.
  PodWatch(ApiClient* api, std::string node, std::function<void()> on_end);
  ~PodWatch();
  void Start();
  void Stop();

  // Whether the watch knows the pod as one that is not over. What it does not know may be newer
  // than its last event: CurrentUids decides.
  bool IsRunning(const std::string& uid);

  // The uids of the node's pods that are not over, asked now.
  //   Errors  of ApiClient::Get
  Result<std::set<std::string>> CurrentUids();

  // One pod, asked now.
  //   Errors  kRefused (also: there is none), kUnavailable, kMalformed
  Result<Pod> Read(const std::string& space, const std::string& name);

 private:
  void Run();
  // All pods of the node and the list's version, page by page.
  Status List(std::map<std::string, Pod>* pods, std::string* version);
  Status Follow(std::string* version, bool* is_gone);
  // False: the watch is over.
  bool Take(const nlohmann::json& event, std::string* version, bool* is_gone);

  ApiClient* const api_;
  const std::string node_;
  const std::function<void()> on_end_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, bool> is_over_;  // uid -> whether it is over
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace farcall::k8s
