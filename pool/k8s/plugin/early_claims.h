// SPDX-License-Identifier: Apache-2.0
// Claims of pods that have just been bound to the node, made while the kubelet still prepares them:
// when it asks for a container's claim, it is there.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pool/k8s/plugin/claim_keeper.h"
#include "pool/k8s/pods/pod.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

// What a container needs of the pool.
struct ContainerClaim {
  std::string claim, token;  // token "": the pool has none
};

//   Thread  any
class EarlyClaims final {
 public:
  using Clock = std::chrono::steady_clock;
  // Makes the claim of a container that has none.
  using Make = std::function<Result<ContainerClaim>(const PodContainer& container,
                                                    pool::v1::ClaimRequest ask)>;
  // `make` is called by threads of this object, several at once.
  EarlyClaims(std::string node, Make make) : node_(std::move(node)), make_(std::move(make)) {}
  ~EarlyClaims() { Stop(); }
  void Start();
  // Waits for what is being made.
  void Stop();

  // The node has a pod that it did not have before. Its containers' claims are made now, unless
  // they name VGPUClaims, somebody has made them already, or other containers have to end first.
  void Begin(const Pod& pod);
  // The container's claim if it was made less than half a minute ago, once: its token is handed
  // out here. Waits while it is being made. nullopt: the caller has to make or to find it, and it
  // is not made here later.
  std::optional<ContainerClaim> Take(const PodContainer& container, Clock::time_point deadline,
                                     const std::function<bool()>& is_cancelled);

 private:
  enum class Stage : uint8_t { kQueued, kRunning, kMade, kTaken };
  struct Job {
    PodContainer container;
    pool::v1::ClaimRequest ask;
    Stage stage = Stage::kQueued;
    ContainerClaim made;
    Clock::time_point since;  // of kMade and kTaken
  };
  void Work();

  const std::string node_;
  const Make make_;
  std::mutex mutex_;
  CondVar changed_;
  std::map<std::string, Job> jobs_;  // by the pod's uid and the container
  std::deque<std::string> queue_;    // of jobs; also such as are no longer kQueued
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace farcall::k8s
