// SPDX-License-Identifier: Apache-2.0
#include "pool/callers.h"

#include <utility>

namespace farcall::pool {

std::optional<std::string_view> BearerOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "Bearer ";
  constexpr size_t kMaxBytes = 4096;
  if (authorization.size() > kMaxBytes || authorization.substr(0, kBearer.size()) != kBearer)
    return std::nullopt;
  return authorization.substr(kBearer.size());
}

Callers::Callers(const std::string& token, std::vector<TokenVerifier> verifiers,
                 bool wants_certificates)
    : verifiers_(std::move(verifiers)),
      has_tenant_tokens_(!verifiers_.empty()),
      wants_certificates_(wants_certificates) {
  if (token.empty()) return;
  verifiers_.push_back(TokenKeys(token).verifier());
  operator_ = verifiers_.back().Tenant();
}

std::optional<Caller> Callers::HolderOf(const TokenVerifier& verifier,
                                        const std::string& identity) const {
  std::string tenant = verifier.Tenant();
  // A token that is given as both is the operator's.
  if (tenant == operator_) return Caller{true, ""};
  if (!wants_certificates_) return Caller{false, std::move(tenant)};
  if (identity.empty()) return std::nullopt;
  return Caller{false, CertificateTenant(identity)};
}

std::optional<Caller> Callers::WithoutToken(const std::string& identity) const {
  if (!wants_token()) return Caller{true, ""};
  if (wants_tenant_token() || identity.empty()) return std::nullopt;
  return Caller{false, CertificateTenant(identity)};
}

std::optional<Caller> Callers::Recognise(std::string_view authorization,
                                         const std::string& identity) const {
  if (!wants_token() || authorization.empty()) return WithoutToken(identity);
  std::optional<std::string_view> token = BearerOf(authorization);
  if (!token) return std::nullopt;
  const TokenVerifier* found = FindToken(verifiers_, *token);
  if (found == nullptr) return std::nullopt;
  return HolderOf(*found, identity);
}

}  // namespace farcall::pool
