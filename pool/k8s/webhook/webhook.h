// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s webhook`: the mutating webhook that puts other schemes' names into ours, from
// its start to SIGTERM.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pool/k8s/api/api_client.h"
#include "pool/k8s/pods/aliases.h"

namespace farcall::k8s {

struct WebhookOptions {
  std::string listen = "0.0.0.0:8443";
  std::vector<std::string> hosts;  // by which the API server reaches it
  std::string space = "farcall";   // namespace of the secret
  std::string secret = "farcall-webhook";
  std::string configuration = "farcall-aliases";
  int certificate_days = 90;
  uint64_t gpushare_unit = kGib;
  bool gates = false;  // gates pods that ask for devices, where the API server knows gates
  ApiAddress api;
};

// The answer to an AdmissionReview. `takes_native`: as in AliasOptions.
//   Errors  kMalformed (no such review)
Result<nlohmann::json> Review(const nlohmann::json& review, const AliasOptions& options);

// Whether an API server of this version, which /version tells, has scheduling gates: 1.27 and
// newer.
//   Errors  kMalformed (no such object)
Result<bool> KnowsGates(const nlohmann::json& version);

// Serves until SIGTERM or SIGINT. Prints one line once the API server trusts its certificate. The
// process's exit code. `folder`: of this process alone, for the certificate.
int RunWebhook(const WebhookOptions& options, const std::string& folder);

}  // namespace farcall::k8s
