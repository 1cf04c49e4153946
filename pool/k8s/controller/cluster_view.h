// SPDX-License-Identifier: Apache-2.0
// A cluster's VGPUClaims, VGPUClasses and the pods that name claims, as the API server tells of
// them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/pods/pod.h"

namespace farcall::k8s {

using ClaimKey = std::pair<std::string, std::string>;  // namespace, name

// Before a pod's name, in a key of what is to be done for the pod itself: it is gated, and not all
// of its containers name claims.
inline constexpr char kPodKey[] = "pod/";

//   Thread  any
class ClusterView final {
 public:
  // `on_change`: this claim may have changed, or a pod that names it; nullopt: any. Called by the
  // watches' own threads.
  using OnChange = std::function<void(const std::optional<ClaimKey>&)>;
  // `has_elastic`: those of elasticgpu.io as well, whose names begin with kElasticClaim.
  static Result<std::unique_ptr<ClusterView>> Make(const ApiAddress& address, bool has_elastic,
                                                   OnChange on_change);
  ~ClusterView();
  void Start();
  void Stop();

  // Whether all lists have been told once.
  bool is_synced();
  std::optional<ClaimObject> Claim(const ClaimKey& key);
  std::optional<ClaimKey> KeyOf(const std::string& uid);
  std::optional<ClaimClass> Class(const std::string& name);
  std::vector<ClaimKey> Claims();  // and those of kPodKey
  std::vector<ClaimObject> AllClaims();
  // Pods that name the claim and are not over, as far as the watch has told.
  std::vector<PodUse> PodsOf(const ClaimKey& key);
  // A pod of kPodKey; nullopt: it is over, gone, or needs nothing any more.
  std::optional<Pod> GatedPod(const ClaimKey& key);
  // The claims that a pod names; none: it is not known, or over.
  std::vector<ClaimKey> ClaimsOf(const std::string& pod_uid);
  // What the API server answered to a change of ours. Nothing if the claim has gone meanwhile: the
  // watch may have told of its end before the answer was read.
  void Update(const ClaimObject& claim);
  // One of them, asked now: claims and pods are told apart, so one may be ahead of the other.
  //   Errors  of ApiClient::Get; nullopt: it is over, gone, or does not name the claim
  Result<std::optional<PodUse>> CurrentPod(const ClaimKey& key, const std::string& name,
                                           const std::string& uid);
  // The uids of all VGPUClaims, asked now.   Errors  of ApiClient::Get
  Result<std::set<std::string>> CurrentUids();

 private:
  class Sink;
  class ClaimSink;
  class ClassSink;
  class PodSink;
  struct KnownPod {
    PodUse use;
    std::vector<ClaimKey> keys;
  };

  ClusterView(bool has_elastic, OnChange on_change);
  void Keep(const ClaimObject& claim);

  const bool has_elastic_;
  const OnChange on_change_;
  std::mutex mutex_;
  std::map<ClaimKey, ClaimObject> claims_;
  std::map<std::string, ClaimKey> keys_;  // by uid
  std::map<std::string, ClaimClass> classes_;
  std::map<std::string, KnownPod> pods_;  // by uid
  std::map<ClaimKey, std::set<std::string>> users_;
  std::map<ClaimKey, Pod> gated_;  // by kPodKey
  size_t synced_ = 0;
  std::vector<std::unique_ptr<ApiClient>> apis_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<ListWatch>> watches_;
};

}  // namespace farcall::k8s
