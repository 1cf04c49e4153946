// SPDX-License-Identifier: Apache-2.0
// A login at the pool's OpenID provider, or with a token of a Kubernetes service account: the user
// that it is, with the roles of its groups, and a token.
#include <algorithm>

#include "pool/access/unix_time.h"
#include "pool/convert/convert_accounts.h"
#include "pool/oidc/provider.h"
#include "pool/service/service.h"
#include "pool/service/service_parts.h"

namespace farcall::pool {

namespace {

Outcome NotProven(const Status& why) {
  switch (why.code()) {
    case Code::kUnavailable:
      return Failed(503, "unavailable", why.message(), "id_token", "try again");
    case Code::kInvalid:
      return Failed(400, "invalid", why.message(), "id_token");
    default:
      return Failed(401, "unauthenticated", why.message(), "id_token");
  }
}

}  // namespace

void Service::SetProvider(const OidcOptions& options) {
  provider_ = std::make_unique<OidcProvider>(options);
  of_provider_ = std::make_unique<LoginReview>(
      LoginReview{options.rules.issuer, options.roles, options.token_s, nullptr});
}

void Service::SetReview(LoginReview review) {
  if (review.check != nullptr) review_ = std::make_unique<LoginReview>(std::move(review));
}

Outcome Service::FindOrAdd(const ProvenIdentity& proven, const std::string& issuer,
                           const std::vector<RoleBinding>& roles, User* user) {
  const std::string subject = issuer + " " + proven.subject;  // as it is kept of a user
  auto find = [&] {
    bool is_there = false;
    controller_->Read([&](const Core& core, Ms) {
      if (const User* found = core.accounts().FindUser(proven.user))
        *user = *found, is_there = true;
    });
    return is_there;
  };
  if (!find()) {
    pool::AddUser event;
    event.user.name = proven.user;
    event.user.tenant = NewTenant(proven.user);
    event.user.subject = subject;
    event.user.roles = roles;
    Effects effects = controller_->Apply(AccountEvent{std::move(event), UnixSeconds()});
    // Unless the same one logged in twice at once.
    if (!find() && effects.refusal) return Of(*effects.refusal);
  }
  if (user->subject == subject) return {};
  // Neither one whom an operator made, nor somebody else to whom the provider gave the name later.
  return Failed(
      409, "conflict",
      "the user '" + proven.user + "' of this pool is not the one of that name at " + issuer,
      "id_token", "farcall pool user remove " + proven.user + " makes room for it");
}

Result<ProvenIdentity> Service::Prove(const std::string& token, int64_t now,
                                      const LoginReview** source) {
  *source = nullptr;
  if (provider_ != nullptr) {
    Result<ProvenIdentity> proven = provider_->Check(token, now);
    *source = of_provider_.get();
    if (proven.ok() || review_ == nullptr) return proven;
  }
  if (review_ == nullptr) return Status(Code::kInvalid, "this pool has no OpenID provider");
  *source = review_.get();
  return review_->check(token);
}

Outcome Service::LogIn(const Caller&, const pb::OidcLogin& request, pb::Token* told) {
  const int64_t now = UnixSeconds();
  const LoginReview* source;
  Result<ProvenIdentity> proven = Prove(request.id_token(), now, &source);
  if (source == nullptr)
    return Failed(400, "invalid", proven.status().message(), "id_token",
                  "farcall pool serve --oidc-issuer names one");
  if (!proven.ok()) return NotProven(proven.status());
  const std::vector<RoleBinding> roles = RolesOf(source->roles, proven->groups);
  User user;
  if (Outcome found = FindOrAdd(*proven, source->issuer, roles, &user); !found.ok()) return found;
  // What groups give is what they give now; what an operator granted stays.
  auto set = [&](const RoleBinding& binding, bool is_taken) {
    controller_->Apply(AccountEvent{pool::SetRole{user.name, binding, is_taken}, now});
  };
  for (const RoleBinding& had : user.roles)
    if (Gives(source->roles, had) && std::find(roles.begin(), roles.end(), had) == roles.end())
      set(had, true);
  for (const RoleBinding& binding : roles)
    if (std::find(user.roles.begin(), user.roles.end(), binding) == user.roles.end())
      set(binding, false);
  controller_->Read([&](const Core& core, Ms) {
    if (const User* found = core.accounts().FindUser(user.name)) user = *found;
  });
  if (user.roles.empty())
    return Failed(403, "forbidden",
                  "none of the groups of '" + user.name + "' has a role in this pool", "id_token",
                  "ask an operator of the pool");
  AccessToken token;
  token.name = "oidc";
  token.user = user.name;
  token.tenant = user.tenant;
  token.made_by = source->issuer;
  token.expires_unix = now + source->token_s;
  return MakeToken(std::move(token), false, told);
}

}  // namespace farcall::pool
