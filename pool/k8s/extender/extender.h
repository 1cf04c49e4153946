// SPDX-License-Identifier: Apache-2.0
// A scheduler extender: pods that ask for a vGPU go to a node only if the pool has one for them,
// and have it by the time that they are bound.
#pragma once

#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/claims/space_project.h"
#include "pool/k8s/extender/pod_retry.h"
#include "pool/k8s/pods/pod.h"

namespace farcall::k8s {

// The annotation that a binding leaves at its pod: {"CONTAINER": {"claim", "host", "gpus"}}.

// Requests and answers are those of k8s.io/kube-scheduler/extender/v1.
//   Thread  any
class Extender final {
 public:
  // `api` outlives it. `project_root`: as SpaceProjects has it.
  Extender(const pool::PoolAddress& pool, const std::string& project_root, ApiClient* api)
      : pool_(pool),
        projects_(&pool_, project_root),
        api_(api),
        retry_(api, pool, [this](const Pod& pod) {
          std::string host;
          return Plan(pod, &host);
        }) {}
  // From Start to Stop, room that comes free makes the scheduler try pods again.
  void Start() { retry_.Start(); }
  void Stop() { retry_.Stop(); }

  // ExtenderArgs -> ExtenderFilterResult: all nodes or none, since the GPUs are no node's. What it
  // promises is the pool's state now; Bind has the last word.
  nlohmann::json Filter(const nlohmann::json& args);
  // ExtenderArgs -> HostPriorityList: 10 for nodes of the zone of the pool's host, else 0. Knows
  // zones only if it is told nodes with their labels (nodeCacheCapable: false).
  nlohmann::json Prioritize(const nlohmann::json& args);
  // ExtenderBindingArgs -> ExtenderBindingResult: claims for all containers, as the node's plugin
  // would request them, and then the binding. All or nothing.
  nlohmann::json Bind(const nlohmann::json& args);

 private:
  struct Grant {
    std::string container;
    pool::v1::Claim claim;
  };
  // Containers that want a claim of their own, each with what it asks. Those of a VGPUClaim have
  // theirs by the controller.
  Status ReadAsks(const Pod& pod, std::vector<std::pair<std::string, Ask>>* asks);
  Status Plan(const Pod& pod, std::string* host);
  Status BindPod(const std::string& space, const std::string& name, const std::string& uid,
                 const std::string& node);
  Status Claim(const Pod& pod, const std::string& node, std::vector<Grant>* grants);
  Status Announce(const Pod& pod, const std::string& node, const std::vector<Grant>& grants);
  Status FindPrefix(const std::string& node, std::string* prefix);
  void Release(const std::vector<Grant>& grants);

  pool::RestClient pool_;
  SpaceProjects projects_;
  ApiClient* const api_;
  std::mutex mutex_;  // all below
  std::string cluster_;
  std::set<std::string> binding_;  // uids
  PodRetry retry_;                 // last: it calls the others
};

}  // namespace farcall::k8s
