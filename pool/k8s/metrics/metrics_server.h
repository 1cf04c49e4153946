// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s metrics`: serves external.metrics.k8s.io to the API server, from its start to
// SIGTERM.
#pragma once

#include <string>
#include <vector>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct MetricsOptions {
  pool::PoolAddress pool;
  std::string listen = "0.0.0.0:8443";
  std::vector<std::string> hosts;  // by which the API server reaches it
  std::string space = "farcall";   // namespace of the secret
  std::string secret = "farcall-metrics";
  std::string service = "v1beta1.external.metrics.k8s.io";  // APIService
  int certificate_days = 90;
  std::string health_listen;  // host:port of /healthz and /readyz; "": none
  ApiAddress api;
};

// Serves until SIGTERM or SIGINT. Prints one line once the API server trusts its certificate. The
// process's exit code. `folder`: of this process alone, for certificates.
int RunMetrics(const MetricsOptions& options, const std::string& folder);

}  // namespace farcall::k8s
