// SPDX-License-Identifier: Apache-2.0
// Users, their roles and the tokens that were made at run time. Pure: no sockets, no store, no
// secrets either: of a token it has what a server keeps of one (proto/handshake/token.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace farcall::pool {

// Each may do what those before it may.
enum class Role : uint8_t { kNone, kViewer, kUser, kAdmin, kOperator };
inline constexpr std::array<std::string_view, 5> kRoleNames = {"none", "viewer", "user", "admin",
                                                               "operator"};
inline std::string_view ToText(Role role) {
  return kRoleNames[static_cast<size_t>(role)];
}
// Of "viewer", "user", "admin", "operator"; nullopt: none of them.
std::optional<Role> ReadRole(std::string_view text);

struct RoleBinding {
  Role role = Role::kNone;
  std::string project;  // and in those below it; empty: in all
  bool operator==(const RoleBinding&) const = default;
};
// Whether a project is `ancestor`, or lies below it in the tree; all do of an empty one.
bool IsIn(std::string_view project, std::string_view ancestor);
// The highest that somebody has in a project.
Role RoleIn(const std::vector<RoleBinding>& roles, std::string_view project);
// The highest that somebody has anywhere.
Role HighestOf(const std::vector<RoleBinding>& roles);

struct User {
  std::string name;
  std::string tenant;  // whose claims are theirs; not of another user of that name, later
  std::vector<RoleBinding> roles;
  bool is_machine = false;
  int64_t created_unix = 0;
  uint64_t revision = 0;
  // "ISSUER SUB": whom the OpenID provider knows by that, and nobody else, logs in as this user;
  // empty: the provider's may not.
  std::string subject = "";
};

struct AccessToken {
  std::string id;        // 16 hexadecimal digits of what its public key's hash begins with
  std::string verifier;  // a line, as in a file of verifiers
  std::string name;      // for people
  std::string user;      // whose; empty: of a tenant of a file, which then has a `claim`
  std::string tenant;    // whose claims it may see
  std::string claim;     // that it may connect to, and nothing else; empty: it is not so bound
  std::string project;   // the only one; empty: all of its user's
  Role most = Role::kOperator;  // its holder has no higher role than this
  std::string made_by;
  int64_t created_unix = 0, expires_unix = 0;  // expires 0: with its claim
  uint64_t number = 0;                         // in the order in which they were made
};

// What a user and a token may be called: 1 to 64 letters, digits and . _ - that begin with a letter
// or digit. So no name is a formula in a spreadsheet, or hides another in a terminal.
bool IsAccountName(std::string_view name);

struct AddUser {
  User user;
};
struct RemoveUser {
  std::string name;
};
struct SetRole {
  std::string name;
  RoleBinding binding;
  bool is_taken = false;  // away
};
struct AddToken {
  AccessToken token;
};
struct RevokeToken {
  std::string id;
};
struct AccountEvent {
  std::variant<AddUser, RemoveUser, SetRole, AddToken, RevokeToken> what;
  int64_t now_unix = 0;
};

// What an event changed, to be stored, or no longer there.
struct AccountChanges {
  std::set<std::string> users, tokens;
  bool empty() const { return users.empty() && tokens.empty(); }
  void Add(const AccountChanges& other) {
    users.insert(other.users.begin(), other.users.end());
    tokens.insert(other.tokens.begin(), other.tokens.end());
  }
};

class Accounts {
 public:
  // Why an event changes nothing.
  struct Refused {
    enum class Why : uint8_t { kInvalid, kNotFound, kConflict, kTooMany } why = Why::kInvalid;
    std::string message, field, hint;
  };

  void Load(std::vector<User> users, std::vector<AccessToken> tokens);
  std::optional<Refused> Apply(const AccountEvent& event, AccountChanges* changes);
  // A claim is over: so are its tokens.
  void EndClaim(const std::string& claim, AccountChanges* changes);
  // Whether a role or a token is of that very project.
  bool Names(const std::string& project) const;

  const std::map<std::string, User>& users() const { return users_; }
  const std::map<std::string, AccessToken>& tokens() const { return tokens_; }
  const User* FindUser(const std::string& name) const;
  const AccessToken* FindToken(const std::string& id) const;

 private:
  std::optional<Refused> On(const AddUser& event, int64_t now, AccountChanges* changes);
  std::optional<Refused> On(const RemoveUser& event, int64_t now, AccountChanges* changes);
  std::optional<Refused> On(const SetRole& event, int64_t now, AccountChanges* changes);
  std::optional<Refused> On(const AddToken& event, int64_t now, AccountChanges* changes);
  std::optional<Refused> On(const RevokeToken& event, int64_t now, AccountChanges* changes);
  void Index(const AccessToken& token);
  void Drop(const std::string& id, AccountChanges* changes);
  void DropExpired(int64_t now, AccountChanges* changes);

  std::map<std::string, User> users_;          // by name
  std::map<std::string, AccessToken> tokens_;  // by id
  // By their number, which is unique: the oldest first.
  std::map<std::string, std::map<uint64_t, std::string>> of_users_, of_claims_;
  std::set<std::pair<int64_t, std::string>> expiries_;
  uint64_t last_number_ = 0, revision_ = 0;
};

}  // namespace farcall::pool
