// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/accounts.h"

#include <algorithm>

#include "pool/core/model/project.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxUsers = 10'000, kMaxTokens = 20'000, kMaxTokensOfUser = 100;
constexpr size_t kMaxTokensOfClaim = 8;  // the oldest goes for a new one
constexpr size_t kMaxRoles = 64;
constexpr size_t kMaxName = 64;

using Refused = Accounts::Refused;
using Why = Accounts::Refused::Why;

Refused NoUser(const std::string& name) {
  return {Why::kNotFound, "there is no user '" + name + "'", "name",
          "farcall pool user list shows them"};
}

Refused BadName(const char* what, const std::string& name, const char* field) {
  return {Why::kInvalid, std::string(what) + " '" + name + "'", field,
          "1 to 64 letters, digits and . _ -, the first a letter or a digit"};
}

Refused BadProject(const std::string& name) {
  return {Why::kInvalid, "project '" + name + "'", "project",
          "names of letters, digits and . _ -, joined by /, 128 characters at most"};
}

std::optional<Refused> FaultOf(const RoleBinding& binding) {
  if (binding.role == Role::kNone)
    return Refused{Why::kInvalid, "a binding without a role", "role",
                   "viewer, user, admin or operator"};
  if (!binding.project.empty() && !IsProjectName(binding.project))
    return BadProject(binding.project);
  if (binding.role == Role::kOperator && !binding.project.empty())
    return Refused{Why::kInvalid, "operator of project '" + binding.project + "'", "project",
                   "an operator is one of the whole pool; a project has admins"};
  return std::nullopt;
}

}  // namespace

std::optional<Role> ReadRole(std::string_view text) {
  for (size_t i = 1; i < kRoleNames.size(); ++i)
    if (kRoleNames[i] == text) return static_cast<Role>(i);
  return std::nullopt;
}

bool IsIn(std::string_view project, std::string_view ancestor) {
  return ancestor.empty() || IsWithin(project, ancestor);
}

Role RoleIn(const std::vector<RoleBinding>& roles, std::string_view project) {
  Role highest = Role::kNone;
  for (const RoleBinding& binding : roles)
    if (IsIn(project, binding.project)) highest = std::max(highest, binding.role);
  return highest;
}

Role HighestOf(const std::vector<RoleBinding>& roles) {
  Role highest = Role::kNone;
  for (const RoleBinding& binding : roles) highest = std::max(highest, binding.role);
  return highest;
}

bool IsAccountName(std::string_view name) {
  auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kMaxName && is_alphanumeric(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

const User* Accounts::FindUser(const std::string& name) const {
  auto found = users_.find(name);
  return found == users_.end() ? nullptr : &found->second;
}

const AccessToken* Accounts::FindToken(const std::string& id) const {
  auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

bool Accounts::Names(const std::string& project) const {
  return std::any_of(users_.begin(), users_.end(),
                     [&](const auto& user) {
                       return std::any_of(
                           user.second.roles.begin(), user.second.roles.end(),
                           [&](const RoleBinding& role) { return role.project == project; });
                     }) ||
         std::any_of(tokens_.begin(), tokens_.end(),
                     [&](const auto& token) { return token.second.project == project; });
}

void Accounts::Load(std::vector<User> users, std::vector<AccessToken> tokens) {
  for (User& user : users) {
    revision_ = std::max(revision_, user.revision);
    const std::string name = user.name;
    users_[name] = std::move(user);
  }
  for (AccessToken& token : tokens) {
    last_number_ = std::max(last_number_, token.number);
    Index(token);
    const std::string id = token.id;
    tokens_[id] = std::move(token);
  }
}

void Accounts::Index(const AccessToken& token) {
  if (!token.claim.empty())
    of_claims_[token.claim][token.number] = token.id;
  else
    of_users_[token.user][token.number] = token.id;
  if (token.expires_unix != 0) expiries_.emplace(token.expires_unix, token.id);
}

void Accounts::Drop(const std::string& id, AccountChanges* changes) {
  auto found = tokens_.find(id);
  if (found == tokens_.end()) return;
  const AccessToken& token = found->second;
  auto& all = token.claim.empty() ? of_users_ : of_claims_;
  const std::string& key = token.claim.empty() ? token.user : token.claim;
  auto of = all.find(key);
  of->second.erase(token.number);
  if (of->second.empty()) all.erase(of);
  expiries_.erase({token.expires_unix, id});
  changes->tokens.insert(id);
  tokens_.erase(found);
}

void Accounts::DropExpired(int64_t now, AccountChanges* changes) {
  // They are refused from the moment on; here they only go out of the store.
  while (!expiries_.empty() && expiries_.begin()->first < now)
    Drop(std::string(expiries_.begin()->second), changes);
}

void Accounts::EndClaim(const std::string& claim, AccountChanges* changes) {
  auto of = of_claims_.find(claim);
  if (of == of_claims_.end()) return;
  const std::map<uint64_t, std::string> ids = of->second;
  for (const auto& [number, id] : ids) Drop(id, changes);
}

std::optional<Refused> Accounts::Apply(const AccountEvent& event, AccountChanges* changes) {
  return std::visit([&](const auto& what) { return On(what, event.now_unix, changes); },
                    event.what);
}

std::optional<Refused> Accounts::On(const AddUser& event, int64_t now, AccountChanges* changes) {
  const std::string& name = event.user.name;
  if (!IsAccountName(name)) return BadName("user", name, "name");
  for (const RoleBinding& binding : event.user.roles)
    if (auto fault = FaultOf(binding)) return fault;
  if (event.user.roles.size() > kMaxRoles)
    return Refused{Why::kInvalid, "more than 64 roles", "roles", ""};
  if (users_.count(name) != 0)
    return Refused{Why::kConflict, "there is a user '" + name + "' already", "name",
                   "farcall pool user grant gives it another role"};
  if (users_.size() >= kMaxUsers)
    return Refused{Why::kTooMany, "the pool has 10000 users, which is all it can", "", ""};
  User& user = users_[name] = event.user;
  user.created_unix = now;
  user.revision = ++revision_;
  changes->users.insert(name);
  return std::nullopt;
}

std::optional<Refused> Accounts::On(const RemoveUser& event, int64_t, AccountChanges* changes) {
  if (users_.erase(event.name) == 0) return NoUser(event.name);
  std::vector<std::string> ids;
  for (const auto& [id, token] : tokens_)
    if (token.user == event.name) ids.push_back(id);
  for (const std::string& id : ids) Drop(id, changes);
  changes->users.insert(event.name);
  return std::nullopt;
}

std::optional<Refused> Accounts::On(const SetRole& event, int64_t, AccountChanges* changes) {
  if (auto fault = FaultOf(event.binding)) return fault;
  auto found = users_.find(event.name);
  if (found == users_.end()) return NoUser(event.name);
  std::vector<RoleBinding>& roles = found->second.roles;
  const auto at = std::find(roles.begin(), roles.end(), event.binding);
  const bool has = at != roles.end();
  if (event.is_taken && !has)
    return Refused{
        Why::kNotFound,
        "user '" + event.name + "' has no role " + std::string(ToText(event.binding.role)) +
            (event.binding.project.empty() ? " of the whole pool"
                                           : " in project '" + event.binding.project + "'"),
        "role", "farcall pool user list shows its roles"};
  if (!event.is_taken && !has && roles.size() >= kMaxRoles)
    return Refused{Why::kTooMany, "user '" + event.name + "' has 64 roles, which is all it can",
                   "role", ""};
  if (event.is_taken)
    roles.erase(at);
  else if (!has)
    roles.push_back(event.binding);
  found->second.revision = ++revision_;
  changes->users.insert(event.name);
  return std::nullopt;
}

std::optional<Refused> Accounts::On(const AddToken& event, int64_t now, AccountChanges* changes) {
  const AccessToken& given = event.token;
  DropExpired(now, changes);
  if (!given.name.empty() && !IsAccountName(given.name))
    return BadName("token", given.name, "name");
  if (!given.project.empty() && !IsProjectName(given.project)) return BadProject(given.project);
  if (!given.user.empty() && users_.count(given.user) == 0) return NoUser(given.user);
  if (given.user.empty() && given.claim.empty())
    return Refused{Why::kInvalid, "a token of no user", "user", "name one"};
  if (tokens_.count(given.id) != 0)
    return Refused{Why::kConflict, "there is a token '" + given.id + "' already", "id", ""};
  if (tokens_.size() >= kMaxTokens)
    return Refused{Why::kTooMany, "the pool has 20000 tokens, which is all it can", "",
                   "revoke some"};
  if (given.claim.empty()) {
    auto of = of_users_.find(given.user);
    if (of != of_users_.end() && of->second.size() >= kMaxTokensOfUser)
      return Refused{Why::kTooMany, "user '" + given.user + "' has 100 tokens, which is all it can",
                     "user", "revoke one"};
  } else if (auto of = of_claims_.find(given.claim);
             of != of_claims_.end() && of->second.size() >= kMaxTokensOfClaim) {
    Drop(std::string(of->second.begin()->second), changes);
  }
  AccessToken& token = tokens_[given.id] = given;
  token.number = ++last_number_;
  token.created_unix = now;
  Index(token);
  changes->tokens.insert(given.id);
  return std::nullopt;
}

std::optional<Refused> Accounts::On(const RevokeToken& event, int64_t, AccountChanges* changes) {
  if (tokens_.count(event.id) == 0)
    return Refused{Why::kNotFound, "there is no token '" + event.id + "'", "id",
                   "farcall pool token list shows them"};
  Drop(event.id, changes);
  return std::nullopt;
}

}  // namespace farcall::pool
