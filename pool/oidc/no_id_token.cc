// SPDX-License-Identifier: Apache-2.0
// In the place of id_token.cc where libcjose is not installed: no token is good.
#include "pool/oidc/id_token.h"

namespace farcall::pool {

namespace {
Status NoLibrary() {
  return {Code::kUnsupported,
          "this build of farcall has no libcjose, and checks no provider's tokens"};
}
}  // namespace

bool ChecksIdTokens() {
  return false;
}

Result<std::string> KeyIdOf(std::string_view) {
  return NoLibrary();
}

Result<ProvenIdentity> CheckIdToken(std::string_view, const nlohmann::json&, const IdTokenRules&,
                                    int64_t) {
  return NoLibrary();
}

}  // namespace farcall::pool
