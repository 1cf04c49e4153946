// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s controller`: binds VGPUClaims in the pool, from its start to SIGTERM.
#pragma once

#include <string>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct ControllerOptions {
  pool::PoolAddress pool;
  std::string project_root;       // as SpaceProjects has it
  bool has_elastic = false;       // ElasticGPUClaims as well
  std::string space = "farcall";  // namespace of the lease
  std::string lease = "farcall-controller";
  std::string identity;  // of this process; "": host and a random number
  int lease_seconds = 15;
  std::string health_listen;  // host:port of /healthz and /readyz; "": none
  ApiAddress api;
};

// Serves until SIGTERM or SIGINT. Prints one line whenever it begins to lead. The process's exit
// code.
int RunController(const ControllerOptions& options);

}  // namespace farcall::k8s
