// SPDX-License-Identifier: Apache-2.0
// Who asks: the pool's operator; a user, by a token that the store knows; or a tenant, the holder
// of one of the clients' tokens of a file or, where clients are asked for certificates, of a
// certificate's name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pool/access/account_view.h"
#include "proto/handshake/token.h"

namespace farcall::pool {

struct Caller {
  bool is_operator = false;
  std::string tenant;      // of one who is none
  std::string user = "";   // by name; empty: no user of the store
  std::string token = "";  // of the store; empty: of a file, or none
  std::string claim = "";  // that the token is bound to; empty: to none
  // A user's, as far as the token lets them be used. A tenant of a file has none.
  std::vector<RoleBinding> roles = {};
  std::string scope = "";  // the only project that its token opens; empty: all
  // Of a tenant of a file: where it is a user, and below.
  std::vector<std::string> projects = {"default"};

  Role In(std::string_view project) const;
  Role Highest() const;

  // Whose claims exist for this one; nullopt: everybody's. The operator's have no tenant, so nobody
  // is asked for by that name.
  std::optional<std::string> by() const {
    if (is_operator) return std::nullopt;
    return tenant.empty() || !claim.empty() || !scope.empty() ? "-" : tenant;
  }
  // Whether a claim of that tenant, in that project, exists for this one.
  bool Sees(const std::string& owner, std::string_view project) const;
  // Whether it is this one's own.
  bool Owns(const std::string& owner, std::string_view project) const {
    return !tenant.empty() && claim.empty() && owner == tenant && IsIn(project, scope);
  }
  // Where a claim goes that names no project: "" (the pool's default) unless its roles are
  // elsewhere.
  std::string HomeProject() const;

 private:
  bool is_of_file() const { return user.empty() && claim.empty() && !tenant.empty(); }
};

// What is shown as "Bearer SECRET"; nullopt: something else.
std::optional<std::string_view> BearerOf(std::string_view authorization);

class Callers {
 public:
  // `token`: the operator's; `verifiers`: of the clients' tokens of files. `wants_certificates`:
  // TLS lets nobody in without one. `accounts`: outlives this; nullptr: no stored tokens.
  // `wants_accounts`: a token is wanted though no file has any. Without all three, all are
  // operators. `tenant_projects`: as Caller::projects.
  Callers(const std::string& token, std::vector<TokenVerifier> verifiers,
          bool wants_certificates = false, const AccountView* accounts = nullptr,
          bool wants_accounts = false, std::vector<std::string> tenant_projects = {"default"});
  bool wants_token() const { return !verifiers_.empty() || wants_accounts_; }
  // Whether a tenant needs one: certificates may do.
  bool wants_tenant_token() const {
    return wants_token() && !(wants_certificates_ && !has_tenant_tokens_);
  }
  // Of "Bearer TOKEN", and of the name in the certificate that was shown.   Thread  any
  std::optional<Caller> Recognise(std::string_view authorization,
                                  const std::string& identity) const;
  // Those of files.
  std::span<const TokenVerifier> verifiers() const { return verifiers_; }
  // The stored token of that id; nullptr: unknown, revoked or expired.
  std::shared_ptr<const TokenVerifier> StoredVerifier(const TokenId& id) const;
  // Of one of them; nullopt: whose certificate names nobody, or whose token was just revoked.
  std::optional<Caller> HolderOf(const TokenVerifier& verifier, const std::string& identity) const;
  // Who shows no token; nullopt: that does not do.
  std::optional<Caller> WithoutToken(const std::string& identity) const;
  // The same caller now; nullopt: its token is no longer good.
  std::optional<Caller> Again(const Caller& caller) const;

 private:
  std::optional<Caller> Stored(const std::string& id) const;
  Caller Tenant(std::string name) const;

  std::vector<TokenVerifier> verifiers_;
  std::string operator_;  // whose tenant's name that would be; empty: there is none
  const bool has_tenant_tokens_, wants_certificates_, wants_accounts_;
  const AccountView* const accounts_;
  const std::vector<std::string> tenant_projects_;
};

// How tokens that the pool makes begin: a user's, a machine's, a claim's.
inline constexpr std::string_view kUserToken = "fcu_", kMachineToken = "fcs_", kClaimToken = "fcc_";

}  // namespace farcall::pool
