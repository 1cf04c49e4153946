// SPDX-License-Identifier: Apache-2.0
// The OpenID provider of a pool: where it is, which keys it signs by, and what its groups may do.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pool/core/model/accounts.h"
#include "pool/oidc/id_token.h"

namespace farcall::pool {

// Who is in that group gets that role.
struct GroupRole {
  std::string group;
  RoleBinding binding;
};

struct OidcOptions {
  IdTokenRules rules;  // an empty issuer: the pool has no provider
  std::vector<GroupRole> roles;
  std::string ca;               // PEM file, for https://; "": the system's
  int64_t token_s = 12 * 3600;  // that a token which comes of a login is good for
  bool given() const { return !rules.issuer.empty(); }
};

// Each that one of the groups has, once, the highest first.
std::vector<RoleBinding> RolesOf(const std::vector<GroupRole>& table,
                                 const std::vector<std::string>& groups);
// Whether that binding is one that groups give, so that a login takes it where they do not.
bool Gives(const std::vector<GroupRole>& table, const RoleBinding& binding);

// Somebody else than a provider who says whose a token is: Kubernetes, of its service accounts.
struct LoginReview {
  std::string issuer;  // whose subjects these are
  std::vector<GroupRole> roles;
  int64_t token_s = 12 * 3600;  // as OidcOptions has it
  // Any thread. nullptr: there is none.   Errors  as OidcProvider::Check
  std::function<Result<ProvenIdentity>(const std::string& token)> check;
};

// Of "GROUP=ROLE" or "GROUP=ROLE@PROJECT".
//   Errors  kInvalid
Result<GroupRole> ReadGroupRole(const std::string& text);

// Whether the issuer's URL will do: https://, or http:// on this machine.
Status CheckIssuer(const std::string& issuer);

// A JSON object at a provider's address.
//   Errors  kInvalid (the URL), kUnavailable, kMalformed (no JSON object, or over 1 MiB)
Result<nlohmann::json> FetchJson(const std::string& url, const std::string& ca);

// What a provider says of itself: that document of its own, and no other issuer's (OpenID Connect
// Discovery 1.0, 4.3).
//   Errors  as FetchJson
Result<nlohmann::json> Discover(const std::string& issuer, const std::string& ca);

//   Thread  any
class OidcProvider {
 public:
  explicit OidcProvider(OidcOptions options) : options_(std::move(options)) {}
  const OidcOptions& options() const { return options_; }

  // Asks the provider for its keys where none are known, they are an hour old, or the token is
  // signed by one that is not among them; then at most once in 10 s.
  //   Errors  as CheckIdToken; kUnavailable (the provider)
  Result<ProvenIdentity> Check(const std::string& id_token, int64_t now_unix);

 private:
  using Clock = std::chrono::steady_clock;
  Status Refresh();
  // What is known now; nullptr: nothing. `is_old`: for an hour.
  std::shared_ptr<const nlohmann::json> Known(bool* is_old);

  const OidcOptions options_;
  std::mutex asking_;  // while one asks, the others go on with what is known
  Clock::time_point asked_{};
  std::mutex mutex_;
  std::shared_ptr<const nlohmann::json> keys_;
  Clock::time_point refreshed_{};
};

}  // namespace farcall::pool
