// SPDX-License-Identifier: Apache-2.0
// Users, roles and tokens in the core.
#include "pool/core/model/accounts.h"

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

class PoolAccounts : public PoolCore {
 protected:
  Effects Account(decltype(AccountEvent::what) what, int64_t now = 1000) {
    return Do(AccountEvent{std::move(what), now});
  }
  Effects Add(const std::string& name, std::vector<RoleBinding> roles = {}) {
    User user;
    user.name = name;
    user.tenant = "user-" + name;
    user.roles = std::move(roles);
    return Account(AddUser{std::move(user)});
  }
  Effects Token(const std::string& id, const std::string& user, const std::string& claim = "",
                int64_t expires = 0, int64_t now = 1000) {
    AccessToken token;
    token.id = id;
    token.user = user;
    token.claim = claim;
    token.expires_unix = expires;
    return Account(AddToken{std::move(token)}, now);
  }
  const Accounts& accounts() const { return core_.accounts(); }
};

TEST_F(PoolAccounts, a_token_ends_with_its_claim) {
  RequestClaim request;
  request.id = "c-1";
  request.tenant = "t";
  request.ask.memory_bytes = kGiB;
  Do(request);
  Effects made = Token("1", "", "c-1");
  EXPECT_FALSE(made.refusal);
  EXPECT_EQ(made.accounts.tokens.count("1"), 1u);
  EXPECT_EQ(accounts().FindToken("1")->tenant, "t");
  Beat();
  Do(ReleaseClaim{"c-1", "", {}});
  Beat();
  Effects over = Beat();
  EXPECT_EQ(accounts().FindToken("1"), nullptr);
  EXPECT_EQ(Token("2", "", "c-1").refusal->code, RefusalCode::kConflict);
  EXPECT_EQ(Token("2", "", "c-9").refusal->code, RefusalCode::kNotFound);
}

TEST_F(PoolAccounts, expired_tokens_leave_the_store) {
  Add("alice");
  Token("1", "alice", "", 2000);
  Token("2", "alice", "", 9000);
  Effects later = Token("3", "alice", "", 9000, 2001);
  EXPECT_EQ(later.accounts.tokens, (std::set<std::string>{"1", "3"}));
  EXPECT_EQ(accounts().tokens().size(), 2u);
}

TEST_F(PoolAccounts, a_removed_users_tokens_go_with_it) {
  Add("alice");
  Token("1", "alice");
  Token("2", "alice");
  Effects removed = Account(RemoveUser{"alice"});
  EXPECT_EQ(removed.accounts.users.count("alice"), 1u);
  EXPECT_EQ(removed.accounts.tokens.size(), 2u);
  EXPECT_TRUE(accounts().tokens().empty());
  EXPECT_EQ(Token("3", "alice").refusal->code, RefusalCode::kNotFound);
}

TEST_F(PoolAccounts, a_user_has_so_many_tokens_and_a_claim_its_newest) {
  Add("alice");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Token(std::to_string(i), "alice").refusal);
  EXPECT_EQ(Token("x", "alice").refusal->code, RefusalCode::kTooMany);
  RequestClaim request;
  request.id = "c-1";
  request.ask.memory_bytes = kGiB;
  Do(request);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(Token("c" + std::to_string(i), "", "c-1").refusal);
  EXPECT_EQ(accounts().FindToken("c0"), nullptr);
  EXPECT_NE(accounts().FindToken("c8"), nullptr);
}

TEST_F(PoolAccounts, roles_name_projects_that_are_there_and_stay) {
  EXPECT_EQ(Add("alice", {{Role::kUser, "research"}}).refusal->field, "project");
  Project project;
  project.name = "research";
  Do(SetProject{project, {}});
  EXPECT_FALSE(Add("alice", {{Role::kUser, "research"}}).refusal);
  EXPECT_EQ(Do(DeleteProject{"research", {}}).refusal->code, RefusalCode::kConflict);
  Account(SetRole{"alice", {Role::kUser, "research"}, true});
  EXPECT_FALSE(Do(DeleteProject{"research", {}}).refusal);
}

TEST_F(PoolAccounts, a_role_counts_in_its_project_and_below) {
  const std::vector<RoleBinding> roles = {{Role::kAdmin, "research"}, {Role::kViewer, ""}};
  EXPECT_EQ(RoleIn(roles, "research"), Role::kAdmin);
  EXPECT_EQ(RoleIn(roles, "research/vision"), Role::kAdmin);
  EXPECT_EQ(RoleIn(roles, "researchers"), Role::kViewer);
  EXPECT_EQ(RoleIn({{Role::kUser, "a/b"}}, "a"), Role::kNone);
}

TEST_F(PoolAccounts, names_are_no_formulas_and_hide_nothing) {
  for (const char* good : {"a", "Alice.B-1_c", "7"}) EXPECT_TRUE(IsAccountName(good)) << good;
  for (const char* bad : {"", "=1", "+1", "-1", "@a", "a b", "a\n", "\x1b[2J", "\xc3\xa9", ".a"})
    EXPECT_FALSE(IsAccountName(bad)) << bad;
}

}  // namespace
}  // namespace farcall::pool
