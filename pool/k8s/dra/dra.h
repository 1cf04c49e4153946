// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s dra`: a driver for dynamic resource allocation (resource.k8s.io/v1), in two
// processes: one of the cluster that publishes the pool's GPUs, and one of each node that a kubelet
// calls.
#pragma once

#include <string>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct DraSlicesOptions {
  pool::PoolAddress pool;
  std::string space = "farcall";  // namespace of the lease
  std::string lease = "farcall-dra";
  std::string identity;  // of this process; "": host and a random number
  int lease_seconds = 15;
  std::string health_listen;  // host:port of /healthz and /readyz; "": none
  ApiAddress api;
};

struct DraNodeOptions {
  std::string node;  // its name in Kubernetes
  pool::PoolAddress pool;
  std::string project_root;  // as SpaceProjects has it
  std::string endpoint;      // as PluginOptions has it
  std::string libraries;     // folder of this node that containers see
  std::string state = "/var/lib/farcall/k8s";
  std::string kubelet = "/var/lib/kubelet";
  std::string cdi = "/var/run/cdi";
  ApiAddress api;
};

// Until SIGTERM or SIGINT. Each prints a line: whenever it begins to lead, and whenever a kubelet
// has taken the driver. The process's exit code.
int RunDraSlices(const DraSlicesOptions& options);
int RunDraNode(const DraNodeOptions& options);

}  // namespace farcall::k8s
