// SPDX-License-Identifier: Apache-2.0
// The pods of one node, as the API server tells of them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/pods/pod.h"

namespace farcall::k8s {

//   Thread  any
class PodWatch final : private ObjectSink {
 public:
  // `on_end`: a pod is over or deleted. `on_new`: the node has one that it did not have before; not
  // told of those that a list finds, which may be any age. Both are called by the watch's own
  // thread, which starts with Start.
  PodWatch(ApiClient* api, const std::string& node, std::function<void()> on_end,
           std::function<void(const Pod&)> on_new);
  ~PodWatch() override;
  void Start() { watch_.Start(); }
  void Stop() { watch_.Stop(); }

  // Whether the watch knows the pod as one that is not over. What it does not know may be newer
  // than its last event: CurrentUids decides.
  bool IsRunning(const std::string& uid);

  // Whether the watch has ever told of the pod; of some 100,000 at least.
  bool WasHere(const std::string& uid);

  // The uids of the node's pods that are not over, asked now.
  //   Errors  of ApiClient::Get
  Result<std::set<std::string>> CurrentUids();

  // One pod, asked now.
  //   Errors  kRefused (also: there is none), kUnavailable, kMalformed
  Result<Pod> Read(const std::string& space, const std::string& name);

 private:
  bool Note(const std::string& uid);  // under the lock; whether it is new
  void Begin() override;
  Status Put(const nlohmann::json& object) override;
  Status Remove(const nlohmann::json& object) override;
  void Synced() override;
  void Lost(const Status& why) override;

  ApiClient* const api_;
  const ObjectList pods_;
  const std::function<void()> on_end_;
  const std::function<void(const Pod&)> on_new_;
  std::mutex mutex_;
  std::map<std::string, bool> is_over_;  // uid -> whether it is over
  std::set<std::string> seen_;           // uids
  // The watch's thread's own.
  std::map<std::string, bool> listed_;
  bool is_listing_ = false;
  ListWatch watch_;  // last: it calls the others
};

}  // namespace farcall::k8s
