// SPDX-License-Identifier: Apache-2.0
// Pods that ask in the words of other GPU-sharing schemes, put into ours: farcall.io/vgpu and the
// annotations that the device plugin reads.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pool/k8s/pods/alias_table.h"

namespace farcall::k8s {

struct AliasOptions {
  // Containers that ask for nvidia.com/gpu and nothing else of HAMi's are translated too: otherwise
  // they are the cluster's own business.
  bool takes_native = false;
  uint64_t gpushare_unit = kGib;  // what aliyun.com/gpu-mem counts
  // Pods that ask for devices get kClaimGate. Only where the API server knows scheduling gates.
  bool gates = false;
};

struct Translation {
  nlohmann::json patch = nlohmann::json::array();  // RFC 6902; empty: the pod stays as it is
  std::vector<std::string> warnings;               // for the user who made the pod
};

// What a container wants, in the words of our annotations: mem, share, limit, priority.
std::map<std::string, std::string> WordsOf(const VgpuAsk& ask);

// Adds kClaimGate to a pod that `done` leaves with containers that ask for devices, if MayBeGated,
// and unless it has the gate or is bound to a node by whoever made it.
void AddGate(const nlohmann::json& pod, Translation* done);

// Translates a pod as the API server admits it. A pod that has been translated is left as it is.
//   Errors  kInvalid: the container, what it asks, and what would be right
Result<Translation> TranslatePod(const nlohmann::json& pod, const AliasOptions& options);

}  // namespace farcall::k8s
