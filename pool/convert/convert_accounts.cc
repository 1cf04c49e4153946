// SPDX-License-Identifier: Apache-2.0
#include "pool/convert/convert_accounts.h"

namespace farcall::pool {

pb::RoleBinding ToProto(const RoleBinding& binding) {
  pb::RoleBinding told;
  told.set_role(std::string(ToText(binding.role)));
  told.set_project(binding.project);
  return told;
}

std::optional<RoleBinding> ToBinding(const std::string& role, const std::string& project) {
  const std::optional<Role> read = ReadRole(role);
  return read ? std::optional(RoleBinding{*read, project}) : std::nullopt;
}

pb::User ToProto(const User& user) {
  pb::User told;
  told.set_name(user.name);
  for (const RoleBinding& binding : user.roles) *told.add_roles() = ToProto(binding);
  told.set_machine(user.is_machine);
  told.set_tenant(user.tenant);
  told.set_created(user.created_unix);
  told.set_revision(user.revision);
  told.set_subject(user.subject);
  return told;
}

pb::Token ToProto(const AccessToken& token) {
  pb::Token told;
  told.set_id(token.id);
  told.set_user(token.user);
  told.set_name(token.name);
  if (token.claim.empty()) told.set_role(std::string(ToText(token.most)));
  told.set_project(token.project);
  told.set_claim(token.claim);
  told.set_made_by(token.made_by);
  told.set_created(token.created_unix);
  told.set_expires(token.expires_unix);
  return told;
}

std::string ToStored(const User& user) {
  pb::StoredUser stored;
  *stored.mutable_user() = ToProto(user);
  return stored.SerializeAsString();
}

std::string ToStored(const AccessToken& token) {
  pb::StoredToken stored;
  *stored.mutable_token() = ToProto(token);
  stored.set_verifier(token.verifier);
  stored.set_tenant(token.tenant);
  stored.set_number(token.number);
  return stored.SerializeAsString();
}

std::optional<User> UserOf(const std::string& stored) {
  pb::StoredUser read;
  if (!read.ParseFromString(stored)) return std::nullopt;
  User user{read.user().name(),    read.user().tenant(),  {},
            read.user().machine(), read.user().created(), read.user().revision(),
            read.user().subject()};
  for (const pb::RoleBinding& told : read.user().roles())
    if (auto binding = ToBinding(told.role(), told.project())) user.roles.push_back(*binding);
  return user;
}

std::optional<AccessToken> TokenOf(const std::string& stored) {
  pb::StoredToken read;
  if (!read.ParseFromString(stored)) return std::nullopt;
  const pb::Token& told = read.token();
  AccessToken token;
  token.id = told.id();
  token.verifier = read.verifier();
  token.name = told.name();
  token.user = told.user();
  token.tenant = read.tenant();
  token.claim = told.claim();
  token.project = told.project();
  // What cannot be read gives nothing.
  token.most = ReadRole(told.role()).value_or(Role::kNone);
  token.made_by = told.made_by();
  token.created_unix = told.created();
  token.expires_unix = told.expires();
  token.number = read.number();
  return token;
}

}  // namespace farcall::pool
