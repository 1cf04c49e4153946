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

Callers::Callers(const std::string& token, std::vector<TokenVerifier> verifiers)
    : verifiers_(std::move(verifiers)) {
  if (token.empty()) return;
  verifiers_.push_back(TokenKeys(token).verifier());
  operator_ = verifiers_.back().Tenant();
}

Caller Callers::HolderOf(const TokenVerifier& verifier) const {
  std::string tenant = verifier.Tenant();
  // A token that is given as both is the operator's.
  if (tenant == operator_) return {true, ""};
  return {false, std::move(tenant)};
}

std::optional<Caller> Callers::Recognise(std::string_view authorization) const {
  if (!wants_token()) return Caller{true, ""};
  std::optional<std::string_view> token = BearerOf(authorization);
  if (!token) return std::nullopt;
  const TokenVerifier* found = FindToken(verifiers_, *token);
  if (found == nullptr) return std::nullopt;
  return HolderOf(*found);
}

}  // namespace farcall::pool
