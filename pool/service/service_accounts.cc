// SPDX-License-Identifier: Apache-2.0
// Users, roles and tokens, as REST and gRPC ask for them.
#include <algorithm>
#include <array>

#include "pool/access/access.h"
#include "pool/access/unix_time.h"
#include "pool/convert/convert_accounts.h"
#include "pool/service/service.h"
#include "pool/service/service_parts.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"

namespace farcall::pool {

namespace {

constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kPersonDays = 90, kMachineDays = 365, kMaxDays = 3660;

Outcome NoRole(const std::string& text) {
  return Failed(400, "invalid", "role '" + text + "'", "role", "viewer, user, admin or operator");
}

Outcome Forbidden(const std::string& why, const std::string& field) {
  return Failed(403, "forbidden", why, field, "ask an operator of the pool");
}

bool IsTheirs(const Caller& caller, const AccessToken& token) {
  return caller.is_operator ||
         (!caller.user.empty() ? token.user == caller.user
                               : token.user.empty() && caller.Owns(token.tenant, ""));
}

}  // namespace

std::string NewTenant(const std::string& name) {
  std::array<uint8_t, 4> random;
  RandomBytes(random);
  return "user-" + name + "-" + HexOf(random);
}

Outcome Service::AddUser(const Caller&, const pb::User& request, pb::User* user) {
  pool::AddUser event;
  event.user.name = request.name();
  event.user.tenant = NewTenant(request.name());
  event.user.is_machine = request.machine();
  for (const pb::RoleBinding& given : request.roles()) {
    auto binding = ToBinding(given.role(), given.project());
    if (!binding) return NoRole(given.role());
    event.user.roles.push_back(*binding);
  }
  return ChangeUser({std::move(event), UnixSeconds()}, request.name(), user);
}

Outcome Service::ChangeUser(AccountEvent event, const std::string& name, pb::User* user) {
  Effects effects = controller_->Apply(std::move(event));
  if (effects.refusal) return Of(*effects.refusal);
  controller_->Read([&](const Core& core, Ms) {
    if (const User* found = core.accounts().FindUser(name)) *user = ToProto(*found);
  });
  return {};
}

Outcome Service::RemoveUser(const Caller&, const pb::UserName& name, pb::User* user) {
  controller_->Read([&](const Core& core, Ms) {
    if (const User* found = core.accounts().FindUser(name.name())) *user = ToProto(*found);
  });
  return ChangeUser({pool::RemoveUser{name.name()}, UnixSeconds()}, name.name(), user);
}

Outcome Service::ListUsers(const Caller&, const pb::ListUsersRequest& request, pb::UserList* list) {
  const int limit = static_cast<int>(PageOf(request.limit()));
  controller_->Read([&](const Core& core, Ms) {
    const auto& users = core.accounts().users();
    for (auto at = users.upper_bound(request.page_token()); at != users.end(); ++at) {
      if (list->users_size() == limit)
        return list->set_next_page_token(list->users(limit - 1).name());
      *list->add_users() = ToProto(at->second);
    }
  });
  return {};
}

Outcome Service::SetRole(const Caller& caller, const pb::RoleChange& request, bool is_taken,
                         pb::User* user) {
  auto binding = ToBinding(request.role(), request.project());
  if (!binding) return NoRole(request.role());
  if (binding->role > caller.In(binding->project) && caller.In(binding->project) >= Role::kAdmin)
    return Forbidden("the role operator is an operator's to give and to take", "role");
  if (caller.In(binding->project) < Role::kAdmin)
    return Forbidden(binding->project.empty()
                         ? "roles in all projects are the operator's to give and to take"
                         : "this token is no admin's of project '" + binding->project + "'",
                     "project");
  return ChangeUser({pool::SetRole{request.name(), *binding, is_taken}, UnixSeconds()},
                    request.name(), user);
}

Outcome Service::GrantRole(const Caller& caller, const pb::RoleChange& request, pb::User* user) {
  return SetRole(caller, request, false, user);
}

Outcome Service::RevokeRole(const Caller& caller, const pb::RoleChange& request, pb::User* user) {
  return SetRole(caller, request, true, user);
}

// Fills in of a token of a user what its maker may give.
Outcome Service::FillToken(const Caller& caller, const pb::TokenRequest& request,
                           AccessToken* token, bool* is_machine) {
  token->user = request.user().empty() ? caller.user : request.user();
  if (token->user.empty())
    return Failed(400, "invalid", "this token is no user's: name the user", "user",
                  "farcall pool token new --user NAME");
  if (token->user != caller.user && !caller.is_operator)
    return Forbidden("tokens of '" + token->user + "' are its own and the operator's to make",
                     "user");
  std::optional<User> user;
  std::optional<AccessToken> own;
  controller_->Read([&](const Core& core, Ms) {
    if (const User* found = core.accounts().FindUser(token->user)) user = *found;
    if (const AccessToken* found = core.accounts().FindToken(caller.token)) own = *found;
  });
  if (!user)
    return Failed(404, "not_found", "there is no user '" + token->user + "'", "user",
                  "farcall pool user list shows them");
  token->tenant = user->tenant;
  *is_machine = user->is_machine;
  if (!request.role().empty()) {
    const std::optional<Role> most = ReadRole(request.role());
    if (!most) return NoRole(request.role());
    token->most = *most;
  }
  token->project = request.project();
  const int64_t now = UnixSeconds();
  const int64_t seconds = request.expires_s() != 0
                              ? request.expires_s()
                              : (*is_machine ? kMachineDays : kPersonDays) * kDay;
  if (seconds < 1 || seconds > kMaxDays * kDay)
    return Failed(
        400, "invalid",
        "expires_s " + std::to_string(seconds) + ": 1 to " + std::to_string(kMaxDays * kDay),
        "expires_s");
  token->expires_unix = now + seconds;
  // No token makes one that may do more, or for longer, than itself.
  if (own && !caller.is_operator) {
    token->most = std::min(token->most, own->most);
    token->expires_unix = std::min(token->expires_unix, own->expires_unix);
    if (!IsIn(token->project, own->project)) token->project = own->project;
  }
  return {};
}

Outcome Service::NewToken(const Caller& caller, const pb::TokenRequest& request, pb::Token* told) {
  AccessToken token;
  token.name = request.name();
  token.made_by = NameOf(caller);
  token.claim = request.claim();
  bool is_machine = false;
  if (token.claim.empty()) {
    if (Outcome filled = FillToken(caller, request, &token, &is_machine); !filled.ok())
      return filled;
  } else {
    std::optional<std::string> by;
    if (Outcome may = MayTouch(caller, RuleOf("claims.connect"), token.claim, &by); !may.ok())
      return may;
    token.user = caller.user;
    if (request.expires_s() < 0 || request.expires_s() > kMaxDays * kDay)
      return Failed(400, "invalid", "expires_s " + std::to_string(request.expires_s()),
                    "expires_s");
    if (request.expires_s() != 0) token.expires_unix = UnixSeconds() + request.expires_s();
  }
  return MakeToken(std::move(token), is_machine, told);
}

Outcome Service::MakeToken(AccessToken token, bool is_machine, pb::Token* told) {
  const std::string secret = std::string(!token.claim.empty() ? kClaimToken
                                         : is_machine         ? kMachineToken
                                                              : kUserToken) +
                             farcall::NewToken();
  const TokenKeys keys(secret);
  token.id = HexOf(keys.verifier().id());
  token.verifier = ToText(keys.verifier());
  const std::string id = token.id;
  Effects effects = controller_->Apply(AccountEvent{AddToken{std::move(token)}, UnixSeconds()});
  if (effects.refusal) return Of(*effects.refusal);
  controller_->Read([&](const Core& core, Ms) {
    if (const AccessToken* made = core.accounts().FindToken(id)) *told = ToProto(*made);
  });
  told->set_token(secret);
  return {};
}

Outcome Service::ListTokens(const Caller& caller, const pb::ListTokensRequest& request,
                            pb::TokenList* list) {
  const int limit = static_cast<int>(PageOf(request.limit()));
  controller_->Read([&](const Core& core, Ms) {
    const auto& tokens = core.accounts().tokens();
    for (auto at = tokens.upper_bound(request.page_token()); at != tokens.end(); ++at) {
      const AccessToken& token = at->second;
      if (!IsTheirs(caller, token)) continue;
      if (!request.user().empty() && token.user != request.user()) continue;
      if (list->tokens_size() == limit)
        return list->set_next_page_token(list->tokens(limit - 1).id());
      *list->add_tokens() = ToProto(token);
    }
  });
  return {};
}

Outcome Service::RevokeToken(const Caller& caller, const pb::TokenName& name, pb::Token* told) {
  bool is_there = false;
  controller_->Read([&](const Core& core, Ms) {
    const AccessToken* token = core.accounts().FindToken(name.id());
    if (token == nullptr || !IsTheirs(caller, *token)) return;
    is_there = true;
    *told = ToProto(*token);
  });
  if (!is_there)
    return Failed(404, "not_found", "there is no token '" + name.id().substr(0, 64) + "'", "id",
                  "farcall pool token list shows them");
  Effects effects = controller_->Apply(AccountEvent{pool::RevokeToken{name.id()}, UnixSeconds()});
  return effects.refusal ? Of(*effects.refusal) : Outcome();
}

Outcome Service::WhoAmI(const Caller& caller, pb::Identity* identity) {
  identity->set_user(caller.user);
  identity->set_is_operator(caller.is_operator);
  identity->set_tenant(caller.tenant);
  for (const RoleBinding& binding : caller.roles) *identity->add_roles() = ToProto(binding);
  if (caller.roles.empty() && caller.claim.empty() && caller.Highest() != Role::kNone)
    *identity->add_roles() = ToProto(RoleBinding{caller.Highest(), ""});
  controller_->Read([&](const Core& core, Ms) {
    if (const AccessToken* token = core.accounts().FindToken(caller.token))
      *identity->mutable_token() = ToProto(*token);
  });
  std::lock_guard lock(mutex_);
  identity->set_pool(options_.pool);
  return {};
}

Outcome Service::MayRequest(const Caller& caller, Ask* ask) const {
  if (ask->project.empty()) ask->project = caller.HomeProject();
  const std::string project = ask->project.empty() ? kDefaultProject : ask->project;
  if (caller.In(project) >= RuleOf("claims.request").least) return {};
  return Failed(403, "forbidden",
                "a claim in project '" + project.substr(0, 128) +
                    "' needs the role user there, and this token's is " +
                    std::string(ToText(caller.In(project))),
                "project", "ask an admin of the project");
}

Outcome Service::MayTouch(const Caller& caller, const Rule& rule, const std::string& id,
                          std::optional<std::string>* by) {
  *by = caller.by();
  // Neither has anything to do with others' claims.
  if (caller.is_operator) return {};
  std::optional<Claim> claim = controller_->Find(id);
  if (claim && MayTo(caller, rule, id, claim->tenant, ProjectOf(*claim))) {
    by->reset();  // the core need not ask again: a claim stays its tenant's and its project's
    return {};
  }
  if (!claim || !caller.Sees(claim->tenant, ProjectOf(*claim))) return NoClaim(id);
  return Failed(403, "forbidden",
                std::string(rule.verb) + " of claim " + claim->id + " needs the role " +
                    std::string(ToText(
                        caller.Owns(claim->tenant, ProjectOf(*claim)) ? rule.least : rule.others)) +
                    " in project '" + ProjectOf(*claim) + "'",
                "id", "ask an admin of the project");
}

}  // namespace farcall::pool
