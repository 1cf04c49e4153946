// SPDX-License-Identifier: Apache-2.0
// The users and tokens that the store holds, for whoever has to judge a token: as the core knew
// them at its last commit.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "pool/core/model/accounts.h"
#include "proto/handshake/token.h"

namespace farcall::pool {

//   Thread  any
class AccountView {
 public:
  struct Holder {
    AccessToken token;
    std::vector<RoleBinding> roles;  // the user's
  };

  // As it is now in the core; nullptr: it is gone.
  void Set(const std::string& name, const User* user);
  void SetToken(const std::string& id, const AccessToken* token);

  // Of a token that is known, not revoked and not expired.
  std::optional<Holder> Find(const std::string& id) const;
  // What proves the token, of those that Find finds.
  std::shared_ptr<const TokenVerifier> VerifierOf(const std::string& id) const;
  // Whether some user may do everything.
  bool has_operator() const;

 private:
  struct Token {
    AccessToken token;
    std::shared_ptr<const TokenVerifier> verifier;
  };
  // Under the lock: nullptr if it does not count (any more).
  const Token* Good(const std::string& id) const;

  mutable std::shared_mutex mutex_;
  std::map<std::string, std::vector<RoleBinding>> users_;
  std::map<std::string, Token> tokens_;
};

}  // namespace farcall::pool
