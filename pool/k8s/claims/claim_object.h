// SPDX-License-Identifier: Apache-2.0
// VGPUClaims and VGPUClasses as the API server has them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pool/k8s/pods/pod.h"
#include "proto/status.h"

namespace farcall::k8s {

inline constexpr char kGroupVersion[] = "farcall.io/v1alpha1";
inline constexpr char kElasticGroupVersion[] = "elasticgpu.io/v1alpha1";
inline constexpr char kProvisioner[] = "farcall.io/pool";
inline constexpr char kFinalizer[] = "farcall.io/claim";
inline constexpr uint32_t kMaxCount = 64;

// How claims of a class are bound and given back.
struct ClaimClass {
  std::string name;
  std::string provisioner = kProvisioner;    // another one's claims are not ours
  bool retains = false;                      // the pool's claim outlives the pods that use it
  bool waits = false;                        // it is requested once a pod names it
  std::map<std::string, std::string> words;  // mem, share, ...: of claims that say nothing of it
  std::string wrong;                         // why it is no class; "": it is one
};

// What the controller says of a claim.
struct ClaimStatus {
  std::string phase;  // Pending, Bound, Released, Failed; "": nothing yet
  std::string claim;  // the pool's; "": none
  std::string host;
  std::vector<uint32_t> gpus;
  uint64_t memory_bytes = 0;  // of each GPU
  std::string reason;
  std::string pod, pod_uid;  // which may use it; "": none
  uint64_t bindings = 0;     // claims of the pool that it had and has no more
  int64_t generation = 0;    // of the spec that was requested last
  bool operator==(const ClaimStatus&) const = default;
};

struct ClaimObject {
  std::string space, name, uid, version;
  int64_t generation = 0;
  bool is_deleting = false;
  std::vector<std::string> finalizers;
  std::string class_name;  // "": none
  uint32_t count = 1;
  std::map<std::string, std::string> words;  // mem, share, limit, ...: kWords
  std::string wrong;                         // why its spec is none; "": it is one
  ClaimStatus status;

  bool has_finalizer() const;
  // Of elasticgpu.io. Its name then begins with kElasticClaim.
  bool is_elastic() const { return name.rfind(kElasticClaim, 0) == 0; }
  // As the API server has it.
  std::string own_name() const {
    return is_elastic() ? name.substr(sizeof(kElasticClaim) - 1) : name;
  }
};

// Where the API server has a claim; `name` begins with kElasticClaim, or is a VGPUClaim's.
std::string ClaimPath(const std::string& space, const std::string& name);

// Whether one version of an object is older than another, where both are numbers.
bool IsOlder(const std::string& version, const std::string& than);

//   Errors  kMalformed (no such object: which field is missing or not what it should be)
Result<ClaimObject> ReadClaim(const nlohmann::json& object);
Result<ClaimClass> ReadClass(const nlohmann::json& object);
// The same of elasticgpu.io, in every spelling that was published. Their names begin with
// kElasticClaim, also the classes'.
Result<ClaimObject> ReadElasticClaim(const nlohmann::json& object);
Result<ClaimClass> ReadElasticClass(const nlohmann::json& object);

// What a claim asks of the pool; of the class what it does not say itself. `of_class` may be null.
//   Errors  kInvalid: the field, its value, and what would be right
Result<Ask> AskOf(const ClaimObject& claim, const ClaimClass* of_class);

// A merge patch of a claim's status, against the version that was read.
nlohmann::json StatusPatch(const ClaimObject& claim, const ClaimStatus& status);
// The same of its finalizers: with ours, or without.
nlohmann::json FinalizerPatch(const ClaimObject& claim, bool is_there);

// "512Mi": bytes as a quantity.
std::string QuantityOf(uint64_t bytes);

}  // namespace farcall::k8s
