// SPDX-License-Identifier: Apache-2.0
// Who asks: the pool's operator, or a tenant, the holder of one of the clients' tokens or, where
// clients are asked for certificates, of a certificate's name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/token.h"

namespace farcall::pool {

struct Caller {
  bool is_operator = false;
  std::string tenant;  // of one who is none

  // Whose claims exist for this one; nullopt: everybody's.
  std::optional<std::string> by() const {
    return is_operator ? std::nullopt : std::optional(tenant);
  }
  bool Sees(const std::string& owner) const { return is_operator || owner == tenant; }
};

// What is shown as "Bearer SECRET"; nullopt: something else.
std::optional<std::string_view> BearerOf(std::string_view authorization);

class Callers {
 public:
  // `token`: the operator's; `verifiers`: of the clients' tokens. With neither, all are operators.
  // `wants_certificates`: TLS lets nobody in without one.
  Callers(const std::string& token, std::vector<TokenVerifier> verifiers,
          bool wants_certificates = false);
  bool wants_token() const { return !verifiers_.empty(); }
  // Whether a tenant needs one: certificates may do.
  bool wants_tenant_token() const {
    return wants_token() && !(wants_certificates_ && !has_tenant_tokens_);
  }
  // Of "Bearer TOKEN", and of the name in the certificate that was shown.   Thread  any
  std::optional<Caller> Recognise(std::string_view authorization,
                                  const std::string& identity) const;
  std::span<const TokenVerifier> verifiers() const { return verifiers_; }
  // Of one of them; nullopt: whose certificate names nobody.
  std::optional<Caller> HolderOf(const TokenVerifier& verifier, const std::string& identity) const;
  // Who shows no token; nullopt: that does not do.
  std::optional<Caller> WithoutToken(const std::string& identity) const;

 private:
  std::vector<TokenVerifier> verifiers_;
  std::string operator_;  // whose tenant's name that would be; empty: there is none
  const bool has_tenant_tokens_, wants_certificates_;
};

}  // namespace farcall::pool
