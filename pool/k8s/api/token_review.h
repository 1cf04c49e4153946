// SPDX-License-Identifier: Apache-2.0
// Whose a token of a service account is, as an API server says (TokenReview,
// authentication.k8s.io/v1).
#pragma once

#include <string>
#include <vector>

#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct ServiceAccount {
  std::string space;  // its namespace
  std::string name, uid;
  std::vector<std::string> groups;
};

// Asks whether the token is good for `audience`. One that is good for the API server alone is not:
// whoever gets hold of it could otherwise log in, or the other way round. Every byte of `token` is
// a stranger's.
//   Errors  kMalformed (no token, or no answer), kRefused (the API server does not know it, it is
//           for another audience, or of nobody who is a service account), kUnavailable
//   Thread  any
Result<ServiceAccount> ReviewToken(ApiClient* api, const std::string& token,
                                   const std::string& audience);

}  // namespace farcall::k8s
