// SPDX-License-Identifier: Apache-2.0
#include "pool/access/callers.h"

#include <algorithm>
#include <utility>

#include "proto/hex.h"

namespace farcall::pool {

namespace {

// What the pool once made is never taken for a token of something else.
bool IsMadeHere(std::string_view token) {
  const std::string_view start = token.substr(0, kUserToken.size());
  return start == kUserToken || start == kMachineToken || start == kClaimToken;
}

}  // namespace

std::optional<std::string_view> BearerOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "Bearer ";
  constexpr size_t kMaxBytes = 4096;
  if (authorization.size() > kMaxBytes || authorization.substr(0, kBearer.size()) != kBearer)
    return std::nullopt;
  return authorization.substr(kBearer.size());
}

Role Caller::In(std::string_view project) const {
  if (is_operator) return Role::kOperator;
  if (!is_of_file()) return RoleIn(roles, project);
  const bool is_user =
      std::any_of(projects.begin(), projects.end(),
                  [&](const std::string& ancestor) { return IsIn(project, ancestor); });
  return is_user ? Role::kUser : Role::kNone;
}

Role Caller::Highest() const {
  if (is_operator) return Role::kOperator;
  return is_of_file() ? Role::kUser : HighestOf(roles);
}

std::string Caller::HomeProject() const {
  if (In("default") >= Role::kUser) return "";
  if (is_of_file() && !projects.empty()) return projects.front();
  for (const RoleBinding& binding : roles)
    if (binding.role >= Role::kUser) return binding.project;
  return "";
}

bool Caller::Sees(const std::string& owner, std::string_view project) const {
  return is_operator || Owns(owner, project) || RoleIn(roles, project) >= Role::kViewer;
}

Callers::Callers(const std::string& token, std::vector<TokenVerifier> verifiers,
                 bool wants_certificates, const AccountView* accounts, bool wants_accounts,
                 std::vector<std::string> tenant_projects)
    : verifiers_(std::move(verifiers)),
      has_tenant_tokens_(!verifiers_.empty()),
      wants_certificates_(wants_certificates),
      wants_accounts_(wants_accounts),
      accounts_(accounts),
      tenant_projects_(std::move(tenant_projects)) {
  if (token.empty()) return;
  verifiers_.push_back(TokenKeys(token).verifier());
  operator_ = verifiers_.back().Tenant();
}

std::shared_ptr<const TokenVerifier> Callers::StoredVerifier(const TokenId& id) const {
  return accounts_ == nullptr ? nullptr : accounts_->VerifierOf(HexOf(id));
}

std::optional<Caller> Callers::Stored(const std::string& id) const {
  std::optional<AccountView::Holder> holder =
      accounts_ == nullptr ? std::nullopt : accounts_->Find(id);
  if (!holder) return std::nullopt;
  const AccessToken& token = holder->token;
  Caller caller{false, token.tenant, token.user, id, token.claim, {}, token.project};
  if (!token.claim.empty()) return caller;  // its one verb asks for no role
  for (RoleBinding& binding : holder->roles) {
    binding.role = std::min(binding.role, token.most);
    if (!token.project.empty()) {
      // Of a role above the token's project, the part in it.
      if (IsIn(token.project, binding.project)) binding.project = token.project;
      if (!IsIn(binding.project, token.project)) continue;
      binding.role = std::min(binding.role, Role::kAdmin);
    }
    if (binding.role == Role::kOperator) caller.is_operator = true;
    caller.roles.push_back(std::move(binding));
  }
  return caller;
}

std::optional<Caller> Callers::HolderOf(const TokenVerifier& verifier,
                                        const std::string& identity) const {
  std::string tenant = verifier.Tenant();
  // A token that is given as both is the operator's.
  if (tenant == operator_) return Caller{true, ""};
  const bool is_of_file = std::any_of(
      verifiers_.begin(), verifiers_.end(),
      [&](const TokenVerifier& known) { return SameBytes(known.public_key, verifier.public_key); });
  if (!is_of_file) return Stored(HexOf(verifier.id()));
  if (!wants_certificates_) return Tenant(std::move(tenant));
  if (identity.empty()) return std::nullopt;
  return Tenant(CertificateTenant(identity));
}

Caller Callers::Tenant(std::string name) const {
  Caller caller{false, std::move(name)};
  caller.projects = tenant_projects_;
  return caller;
}

std::optional<Caller> Callers::WithoutToken(const std::string& identity) const {
  if (!wants_token()) return Caller{true, ""};
  if (wants_tenant_token() || identity.empty()) return std::nullopt;
  return Tenant(CertificateTenant(identity));
}

std::optional<Caller> Callers::Recognise(std::string_view authorization,
                                         const std::string& identity) const {
  if (authorization.empty()) return WithoutToken(identity);
  std::optional<std::string_view> token = BearerOf(authorization);
  const bool is_made_here = token && IsMadeHere(*token);
  if (!wants_token() && !is_made_here) return WithoutToken(identity);
  if (!token || token->empty()) return std::nullopt;
  if (!is_made_here) {
    const TokenVerifier* found = FindToken(verifiers_, *token);
    return found == nullptr ? std::nullopt : HolderOf(*found, identity);
  }
  const TokenVerifier shown = TokenKeys(*token).verifier();
  std::shared_ptr<const TokenVerifier> known = StoredVerifier(shown.id());
  // Both: the public key is known to others, the server's is not.
  if (known == nullptr || !SameBytes(known->public_key, shown.public_key) ||
      !SameBytes(known->server_key.bytes(), shown.server_key.bytes()))
    return std::nullopt;
  return Stored(HexOf(shown.id()));
}

std::optional<Caller> Callers::Again(const Caller& caller) const {
  return caller.token.empty() ? std::optional(caller) : Stored(caller.token);
}

}  // namespace farcall::pool
