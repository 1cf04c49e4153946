// SPDX-License-Identifier: Apache-2.0
// A pod as the API server describes it, as far as the plugin uses it, and what it asks of the pool.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "generated/proto/pool.pb.h"
#include "pool/k8s/api/object_fields.h"
#include "proto/status.h"

namespace farcall::k8s {

// The scheduling gate of pods that wait for the VGPUClaims that they name. It needs
// Kubernetes 1.27.
inline constexpr char kClaimGate[] = "farcall.io/claim";

// By which a scheduler extender tells what it has claimed for a pod.
inline constexpr char kAllocation[] = "k8s.farcall.io/allocation";

// What kubelets count: one is one device of a container's claim.
inline constexpr char kResource[] = "farcall.io/vgpu";

// Before the name of an ElasticGPUClaim, where a VGPUClaim has its name alone.
inline constexpr char kElasticClaim[] = "elasticgpuclaim/";

struct Pod {
  std::string space;  // its namespace
  std::string name;
  std::string uid;
  std::string node;  // that it is bound to
  std::string resource_version;
  std::string created;          // as the API server writes it
  bool is_over = false;         // succeeded or failed
  bool has_init = false;        // containers that run before the others
  bool has_allocation = false;  // it says of itself that a scheduler extender has made its claims
  bool is_gated = false;        // by kClaimGate
  std::map<std::string, std::string> annotations;  // those of farcall.io/
  std::map<std::string, std::string> asked;        // container -> its limit of kResource
};

// A container of a pod.
struct PodContainer {
  std::string space, pod, uid, container;
};

//   Errors  kMalformed (no pod: which field is missing or not what it should be)
Result<Pod> ReadPod(const nlohmann::json& object);

// Reads annotations, asked, has_init, has_allocation and is_gated: what a pod says that has no name
// yet. What is not as it should be is left out.
void ReadPodWords(const nlohmann::json& object, Pod* pod);

// The container that an annotation gives an ElasticGPUClaim; "": it is no such annotation.
std::string ElasticContainer(const std::string& annotation);

struct Ask {
  pool::v1::ClaimRequest request;
  uint32_t memory_milli = 0;  // instead of its bytes: this part of each device's memory
  // A VGPUClaim of the pod's namespace, or an ElasticGPUClaim, and nothing else; "": none.
  std::string claim;
};

// Reads one of mem, share, tflops, limit, priority, model and placer. `name` is what it is called
// where it was written, for the message.   Errors  kInvalid
Status ReadAskWord(const std::string& name, const std::string& key, const std::string& value,
                   Ask* ask);

// What the annotations ask for each device of a container of the pod. farcall.io/mem.CONTAINER is
// of that container alone, farcall.io/mem of all that have none of their own. Those that are
// absent:
//   farcall.io/mem       whole devices
//   farcall.io/share     no guaranteed part of device time
//   farcall.io/tflops    no guaranteed part of device time
//   farcall.io/limit     all of the device time that is free
//   farcall.io/priority  normal
//   farcall.io/model     any
//   farcall.io/placer    the pool's
//   farcall.io/claim     no VGPUClaim: a claim of the container's own
//   Errors  kInvalid: the annotation, its value and what would be right. Also for one of
//           farcall.io/ that is not known: who misspells `mem` must not be given whole devices.
Result<Ask> ReadAsk(const Pod& pod, const std::string& container);

// How many devices a limit of kResource asks for; 0: it is no such number.
uint32_t DeviceCount(const std::string& limit);

// The words of kWords that ask for a container's own claim, as they are written: mem, share, ...
std::map<std::string, std::string> OwnWords(const Pod& pod, const std::string& container);

// Whether each container that asks for devices says properly for which claim. Beside init
// containers they have to name theirs: which claim of the others an init container uses is known
// only on the node.
bool MayBeGated(const Pod& pod);

// The VGPUClaims, and ElasticGPUClaims, that the pod's containers name, as Ask::claim has them.
std::set<std::string> NamedClaims(const Pod& pod);

// A quantity of Kubernetes in bytes: "4Gi", "4G" (10^9), "1.5Gi", "4GiB", "4294967296".
bool ReadQuantity(std::string_view text, uint64_t* bytes);

}  // namespace farcall::k8s
