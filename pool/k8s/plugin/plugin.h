// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s plugin`: a node's device plugin, from its start to SIGTERM.
#pragma once

#include <string>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct PluginOptions {
  pool::PoolAddress pool;
  std::string endpoint;      // of the pool for containers; "": the host of `pool`, port 7718
  std::string project_root;  // as SpaceProjects has it
  std::string node;          // as the API server calls it
  int slots = 64;
  std::string state = "/var/lib/farcall/k8s";
  std::string libraries;  // the client's
  std::string kubelet = "/var/lib/kubelet";
  ApiAddress api;
};

// Serves until SIGTERM or SIGINT. Prints one line once the kubelet has taken the plugin; registers
// again whenever the kubelet has started anew. The process's exit code.
int RunPlugin(const PluginOptions& options);

}  // namespace farcall::k8s
