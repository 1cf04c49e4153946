// SPDX-License-Identifier: Apache-2.0
// The pool's claims for the containers of one node: requested, renewed, released.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pool/client/rest_client.h"
#include "pool/k8s/claims/space_project.h"
#include "pool/k8s/plugin/slots.h"
#include "pool/k8s/pods/pod.h"
#include "pool/k8s/pods/pod_watch.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

// Keeps nothing of its own: a claim's owner in the pool says whose it is (node, pod, container),
// and the API server which pods there are. So a plugin that was away finds all again.
//   Thread  any
class ClaimKeeper final {
 public:
  using Clock = std::chrono::steady_clock;
  // Until whoever waits for another call sees that nobody waits for it any more.
  static constexpr std::chrono::milliseconds kCancelPause{200};

  // `api` and `watch` outlive it. `on_health`: whether the pool answers, whenever that changes;
  // called by the keeper's own thread.
  // `project_root`: as SpaceProjects has it.
  ClaimKeeper(const pool::PoolAddress& pool, const std::string& project_root, std::string node,
              ApiClient* api, PodWatch* watch, Slots* slots, std::function<void(bool)> on_health);
  ~ClaimKeeper();
  void Start();
  void Stop();
  // A pod has ended: look at once.
  void Wake();

  // The container's claim, bound to a host: the one it has, else a new one for `ask`. Waits until
  // `deadline`; a claim without a place stays in the queue and is found by the next call. Calls for
  // one container take turns.
  //   Errors  kUnavailable (the pool, the API server; or another call is at it until `deadline`),
  //           kRefused (by the pool, with its reason), kTimeout (no place yet, with the pool's
  //           reason)
  // `is_cancelled`: nobody waits for it any more. `is_new`: only this process may have made a claim
  // for the container, so the pool's claims need not be listed.
  Result<std::string> Bind(const PodContainer& container, pool::v1::ClaimRequest ask,
                           Clock::time_point deadline, const std::function<bool()>& is_cancelled,
                           bool is_new = false);
  // The pool's claim of a VGPUClaim of the pod's namespace, once the controller has bound it and
  // given it to this pod. Waits until `deadline`; the next call goes on waiting.
  //   count   devices of the container: the VGPUClaim has to be of as many
  //   Errors  kUnavailable, kRefused (another number of devices; or it names a claim of the pool
  //           that is not its own), kTimeout (what it waits for)
  Result<std::string> BindNamed(const PodContainer& container, const std::string& name,
                                uint32_t count, Clock::time_point deadline,
                                const std::function<bool()>& is_cancelled);
  // A new token that connects to this claim, may do nothing else, and ends with it.
  //   Errors  kUnavailable, kRefused (an older pool, or the claim is over)
  Result<std::string> NewToken(const std::string& claim);

  // Turns a part of a device's memory into bytes: of the largest device that the pool has for it,
  // so that it is at least that part of any. Rounded up to 1 MiB.
  //   Errors  kUnavailable, kRefused (the pool has no such device)
  Status SizeMemory(Ask* ask);

 private:
  void Run();
  Status Sweep();
  void CheckHealth();
  // The beginning of the owners of this node's claims. Asks the API server the first time.
  Status FindPrefix(std::string* prefix);
  // This node's claims that are not over.
  Status List(std::vector<pool::v1::Claim>* claims);
  // The live claim of an owner, as Bind has it; an empty one: there is none.
  Status FindOwn(const std::string& owner, bool is_new, pool::v1::Claim* claim);
  Status Request(const PodContainer& container, const std::string& owner,
                 pool::v1::ClaimRequest ask, pool::v1::Claim* claim);
  Result<std::string> BindAlone(const PodContainer& container, const std::string& owner,
                                pool::v1::ClaimRequest ask, Clock::time_point deadline,
                                const std::function<bool()>& is_cancelled, bool is_new);
  // Of the claims of this node: forgets those that `before` has and the pool no longer lists.
  void Learn(const std::vector<pool::v1::Claim>& listed,
             const std::map<std::string, std::string>& before);
  // One look. kTimeout: not yet.
  Result<std::string> LookNamed(const PodContainer& container, const std::string& name,
                                uint32_t count);
  // Of a claim that has no place: why, as an error of Bind. One that can have none is released.
  Status Explain(const std::string& claim);
  Status Call(const char* method, const std::string& path, const google::protobuf::Message* in,
              google::protobuf::Message* out);

  pool::RestClient pool_;
  SpaceProjects projects_;
  const std::string node_;
  ApiClient* const api_;
  PodWatch* const watch_;
  Slots* const slots_;
  const std::function<void(bool)> on_health_;

  std::mutex mutex_;
  CondVar wake_, bound_;  // the thread's; an owner has left binding_
  std::string prefix_;
  std::set<std::string> binding_;  // owners that a call is at
  // "PREFIXUID:CONTAINER:" -> its claim, so that it is looked at alone. It may be over.
  std::map<std::string, std::string> known_;
  bool is_woken_ = false;
  bool is_stopped_ = false;
  std::thread thread_;
  // The thread's own.
  std::map<std::string, Clock::time_point> unseen_;  // claims of pods that never were here
  int failures_ = 0;
  bool is_healthy_ = false;
};

}  // namespace farcall::k8s
