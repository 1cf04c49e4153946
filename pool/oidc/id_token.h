// SPDX-License-Identifier: Apache-2.0
// What an OpenID provider signs of somebody who logged in there (OpenID Connect Core 1.0, 2 and
// 3.1.3.7): a JWT by RS256 or ES256, and nothing else.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall::pool {

// What a token must say to be good here, and where it says who it is of.
struct IdTokenRules {
  std::string issuer;                             // exactly, as `iss`
  std::string audience;                           // one of `aud`: the pool's client id there
  std::string user_claim = "preferred_username";  // a name, as IsAccountName has it
  std::string groups_claim = "groups";            // a list of texts, or one
};

struct ProvenIdentity {
  std::string user, subject;  // `sub`, which stays a person's when the name does not
  std::vector<std::string> groups;
};

// Whether this build checks tokens: it has libcjose.
bool ChecksIdTokens();

inline constexpr size_t kMaxIdTokenBytes = 16 << 10;

// The id of the key that the token says it was signed by; "": it names none.
//   Errors  kMalformed (no JWT), kInvalid (an algorithm other than RS256 and ES256)
Result<std::string> KeyIdOf(std::string_view id_token);

// Checks signature, issuer, audience and times. `keys`: the provider's JSON Web Key Set. Every byte
// of `id_token` is a stranger's.
//   Errors  kMalformed (no JWT), kRefused (not signed by one of the keys, of another issuer or
//           audience, not valid at that time), kInvalid (it names no user)
//   Thread  any
Result<ProvenIdentity> CheckIdToken(std::string_view id_token, const nlohmann::json& keys,
                                    const IdTokenRules& rules, int64_t now_unix);

}  // namespace farcall::pool
