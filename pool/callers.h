// SPDX-License-Identifier: Apache-2.0
// Who asks: the pool's operator, or a tenant, the holder of one of the clients' tokens.
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
  Callers(const std::string& token, std::vector<TokenVerifier> verifiers);
  bool wants_token() const { return !verifiers_.empty(); }
  // Of "Bearer TOKEN".   Thread  any
  std::optional<Caller> Recognise(std::string_view authorization) const;
  std::span<const TokenVerifier> verifiers() const { return verifiers_; }
  // Of one of them.
  Caller HolderOf(const TokenVerifier& verifier) const;

 private:
  std::vector<TokenVerifier> verifiers_;
  std::string operator_;  // whose tenant's name that would be; empty: there is none
};

}  // namespace farcall::pool
