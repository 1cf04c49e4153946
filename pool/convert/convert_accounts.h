// SPDX-License-Identifier: Apache-2.0
// Users and tokens between the wire, the store and the core.
#pragma once

#include <optional>
#include <string>

#include "generated/proto/pool.pb.h"
#include "pool/core/model/accounts.h"

namespace farcall::pool {

namespace pb = farcall::pool::v1;

pb::RoleBinding ToProto(const RoleBinding& binding);
pb::User ToProto(const User& user);
pb::Token ToProto(const AccessToken& token);  // without the secret, which nobody has

// nullopt: `role` is none.
std::optional<RoleBinding> ToBinding(const std::string& role, const std::string& project);

// As the store holds them.
std::string ToStored(const User& user);
std::string ToStored(const AccessToken& token);
std::optional<User> UserOf(const std::string& stored);
std::optional<AccessToken> TokenOf(const std::string& stored);

}  // namespace farcall::pool
