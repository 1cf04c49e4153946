// SPDX-License-Identifier: Apache-2.0
// What the plugin asks of its node's kubelet.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generated/proto/k8s/podresources.pb.h"
#include "proto/status.h"

namespace farcall::k8s {

// The container that has devices, by the kubelet's word. It does not tell the pod's uid.
struct Holder {
  std::string space, pod, container;
};

// Tells the kubelet at `kubelet_socket` of the plugin whose socket beside it is `plugin_name`.
//   Errors  kUnavailable (nobody answers), kRefused
Status Register(const std::string& kubelet_socket, const std::string& plugin_name);

// Asks the kubelet which containers have devices.
//   Errors  kUnavailable
Result<v1::ListPodResourcesResponse> ListDevices(const std::string& pod_resources_socket);

// The one container that has exactly these devices of kResource; none: not told yet, or more than
// one pod is said to have one of them (of which one is gone).
std::optional<Holder> HolderOf(const v1::ListPodResourcesResponse& told,
                               const std::set<std::string>& ids);

}  // namespace farcall::k8s
