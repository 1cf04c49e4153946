// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s extender`: answers a kube-scheduler at /filter, /prioritize and /bind, from its
// start to SIGTERM.
#pragma once

#include <string>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct ExtenderOptions {
  pool::PoolAddress pool;
  std::string project_root;  // as SpaceProjects has it
  // Whoever reaches it can have pods bound: without `tls.authorities`, which says whose
  // certificates are believed, only an address of the loopback is taken.
  std::string listen = "127.0.0.1:8888";
  TlsFiles tls;
  std::string health_listen;  // host:port of /healthz and /readyz; "": none
  ApiAddress api;
};

// Prints one line once it listens. The process's exit code.
int RunExtender(const ExtenderOptions& options);

}  // namespace farcall::k8s
