// SPDX-License-Identifier: Apache-2.0
#include "pool/access/account_view.h"

#include <algorithm>
#include <mutex>

#include "pool/access/unix_time.h"

namespace farcall::pool {

void AccountView::Set(const std::string& name, const User* user) {
  std::unique_lock lock(mutex_);
  if (user == nullptr)
    users_.erase(name);
  else
    users_[name] = user->roles;
}

void AccountView::SetToken(const std::string& id, const AccessToken* token) {
  Result<TokenVerifier> verifier = token == nullptr
                                       ? Result<TokenVerifier>(Status(Code::kInvalid, ""))
                                       : ParseVerifier(token->verifier);
  std::unique_lock lock(mutex_);
  if (!verifier.ok())
    tokens_.erase(id);
  else
    tokens_[id] = {*token, std::make_shared<const TokenVerifier>(std::move(*verifier))};
}

const AccountView::Token* AccountView::Good(const std::string& id) const {
  auto found = tokens_.find(id);
  if (found == tokens_.end()) return nullptr;
  const AccessToken& token = found->second.token;
  if (token.expires_unix != 0 && token.expires_unix <= UnixSeconds()) return nullptr;
  if (!token.user.empty() && users_.count(token.user) == 0) return nullptr;
  return &found->second;
}

std::optional<AccountView::Holder> AccountView::Find(const std::string& id) const {
  std::shared_lock lock(mutex_);
  const Token* good = Good(id);
  if (good == nullptr) return std::nullopt;
  Holder holder{good->token, {}};
  if (auto user = users_.find(good->token.user); user != users_.end()) holder.roles = user->second;
  return holder;
}

std::shared_ptr<const TokenVerifier> AccountView::VerifierOf(const std::string& id) const {
  std::shared_lock lock(mutex_);
  const Token* good = Good(id);
  return good == nullptr ? nullptr : good->verifier;
}

bool AccountView::has_operator() const {
  std::shared_lock lock(mutex_);
  return std::any_of(users_.begin(), users_.end(),
                     [](const auto& user) { return HighestOf(user.second) == Role::kOperator; });
}

}  // namespace farcall::pool
