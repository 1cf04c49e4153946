// SPDX-License-Identifier: Apache-2.0
// `farcall pool user` and `farcall pool token`: by REST.
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

std::string RoleText(const pb::RoleBinding& binding) {
  const std::string role = Printable(binding.role());
  return binding.project().empty() ? role : role + " in " + Printable(binding.project());
}

// "2026-11-28 06:10", UTC.
std::string TimeText(int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  tm parts{};
  char text[32] = "?";
  if (gmtime_r(&time, &parts) != nullptr)
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts);
  return text;
}

void Print(const pb::User& user) {
  std::printf("%s", Printable(user.name()).c_str());
  if (user.machine()) std::printf("  machine");
  for (const pb::RoleBinding& binding : user.roles())
    std::printf("  %s", RoleText(binding).c_str());
  if (user.roles_size() == 0) std::printf("  no role");
  std::printf("\n");
}

void Print(const pb::Token& token) {
  std::printf("%s  %s", Printable(token.id()).c_str(),
              token.user().empty() ? "-" : Printable(token.user()).c_str());
  if (!token.claim().empty()) std::printf("  claim %s", Printable(token.claim()).c_str());
  if (token.claim().empty() && token.role() != "operator")
    std::printf("  %s at most", Printable(token.role()).c_str());
  if (!token.project().empty()) std::printf("  in %s", Printable(token.project()).c_str());
  if (token.expires() != 0) std::printf("  until %s", TimeText(token.expires()).c_str());
  if (!token.name().empty()) std::printf("  (%s)", Printable(token.name()).c_str());
  std::printf("\n");
}

struct UserFlags {
  std::string name, role, project;
  bool is_machine = false;
};

std::string CheckRole(const std::string& text) {
  for (const char* role : {"viewer", "user", "admin", "operator"})
    if (text == role) return "";
  return "'" + text + "': viewer, user, admin or operator";
}

int AddUser(const PoolOptions& pool, const UserFlags& flags) {
  pb::User request, user;
  request.set_name(flags.name);
  request.set_machine(flags.is_machine);
  if (!flags.role.empty()) {
    pb::RoleBinding* binding = request.add_roles();
    binding->set_role(flags.role);
    binding->set_project(flags.project);
  }
  const int code = Call(pool, "POST", "/v1/users", &request, &user);
  if (code == 0 && !pool.json) Print(user);
  return code;
}

int SetRole(const PoolOptions& pool, const UserFlags& flags, const char* verb) {
  pb::RoleChange request;
  request.set_name(flags.name);
  request.set_role(flags.role);
  request.set_project(flags.project);
  pb::User user;
  const int code = Call(pool, "POST", "/v1/users/" + flags.name + ":" + verb, &request, &user);
  if (code == 0 && !pool.json) Print(user);
  return code;
}

int RemoveUser(const PoolOptions& pool, const UserFlags& flags) {
  pb::User user;
  const int code = Call(pool, "DELETE", "/v1/users/" + flags.name, nullptr, &user);
  if (code == 0 && !pool.json) Print(user);
  return code;
}

// All pages; with --json each as it comes.
template <typename List, typename PrintAll>
int Pages(const PoolOptions& pool, const std::string& path, PrintAll print) {
  std::string after;
  while (true) {
    List list;
    const int code =
        Call(pool, "GET", path + "?limit=1000" + (after.empty() ? "" : "&page_token=" + after),
             nullptr, &list);
    if (code != 0) return code;
    if (!pool.json) print(list);
    after = list.next_page_token();
    if (after.empty() || !CheckName(after).empty()) return kExitOk;
  }
}

int ListUsers(const PoolOptions& pool) {
  return Pages<pb::UserList>(pool, "/v1/users", [](const pb::UserList& list) {
    for (const pb::User& user : list.users()) Print(user);
    if (list.users_size() == 0) std::printf("no users\n");
  });
}

int ListTokens(const PoolOptions& pool) {
  return Pages<pb::TokenList>(pool, "/v1/tokens", [](const pb::TokenList& list) {
    for (const pb::Token& token : list.tokens()) Print(token);
    if (list.tokens_size() == 0) std::printf("no tokens\n");
  });
}

struct TokenFlags {
  std::string file, expires;
  pb::TokenRequest request;
};

int NewToken(const PoolOptions& pool, TokenFlags& flags) {
  if (!flags.expires.empty()) flags.request.set_expires_s(ReadDuration(flags.expires));
  pb::Token made;
  const int code = Call(pool, "POST", "/v1/tokens", &flags.request, &made);
  if (code != 0 || pool.json) return code;
  if (!flags.file.empty()) return WriteTokenFile(flags.file, made.token());
  std::printf("%s\n", Printable(made.token(), kMaxMessageBytes).c_str());
  return kExitOk;
}

int RevokeToken(const PoolOptions& pool, const std::string& id) {
  pb::Token token;
  const int code = Call(pool, "DELETE", "/v1/tokens/" + id, nullptr, &token);
  if (code == 0 && !pool.json) Print(token);
  return code;
}

CLI::App* AddOfUser(CLI::App* users, const char* name, const char* does,
                    const std::shared_ptr<UserFlags>& flags, bool wants_role, int& exit_code,
                    const std::function<int(const PoolOptions&, const UserFlags&)>& run) {
  CLI::App* command = users->add_subcommand(name, does);
  auto pool = AddPoolOptions(command);
  command->add_option("name", flags->name, "name of the user")->required()->check(CheckName);
  if (wants_role) {
    CLI::Option* role =
        command->add_option("--role", flags->role, "viewer, user, admin or operator")
            ->check(CheckRole);
    if (std::string(name) != "add") role->required();
    command->add_option("--project", flags->project,
                        "project in which it counts, and those below it (default: all)");
  }
  command->callback([pool, flags, run, &exit_code] { exit_code = run(*pool, *flags); });
  return command;
}

void AddUserCommand(CLI::App& app, int& exit_code) {
  CLI::App* users = app.add_subcommand("user", "Users of the pool, and their roles");
  users->require_subcommand(1);
  auto flags = std::make_shared<UserFlags>();
  AddOfUser(users, "add", "Makes a user", flags, true, exit_code, AddUser)
      ->footer(
          "A viewer reads, a user has claims of its own, an admin may do anything to the claims of "
          "its projects and give roles there, an operator may do everything.\n"
          "Example: farcall pool user add alice --role user --project research\n"
          "         farcall pool token new alice.token --user alice")
      ->add_flag("--machine", flags->is_machine,
                 "a program's: its tokens last for a year, not for 90 days");
  AddOfUser(users, "remove", "Removes a user and its tokens; its claims stay", flags, false,
            exit_code, RemoveUser);
  AddOfUser(users, "grant", "Gives a user a role", flags, true, exit_code,
            [](const PoolOptions& pool, const UserFlags& given) {
              return SetRole(pool, given, "grant");
            });
  AddOfUser(users, "revoke", "Takes a role away; what runs goes on", flags, true, exit_code,
            [](const PoolOptions& pool, const UserFlags& given) {
              return SetRole(pool, given, "revoke");
            });
  CLI::App* list = users->add_subcommand("list", "Lists users with their roles");
  auto pool = AddPoolOptions(list);
  list->callback([pool, &exit_code] { exit_code = ListUsers(*pool); });
}

void AddNewToken(CLI::App* tokens, int& exit_code) {
  CLI::App* made = tokens->add_subcommand("new", "Makes a token, which is shown this once");
  auto pool = AddPoolOptions(made);
  auto flags = std::make_shared<TokenFlags>();
  pb::TokenRequest* request = &flags->request;
  made->add_option("file", flags->file,
                   "new file for the token, readable by its owner only (default: print it)");
  made->add_option_function<std::string>(
          "--user", [request](const std::string& text) { request->set_user(text); },
          "whose it is (default: yours)")
      ->check(CheckName);
  made->add_option_function<std::string>(
          "--name", [request](const std::string& text) { request->set_name(text); },
          "name of the token, for lists")
      ->check(CheckName);
  made->add_option("--expires", flags->expires,
                   "time until it expires: 90s, 30m, 1h, 7d (default: 90d, of a machine's user "
                   "365d, of a claim's with the claim)")
      ->check(CheckDuration);
  made->add_option_function<std::string>(
          "--role", [request](const std::string& text) { request->set_role(text); },
          "highest role that it gives (default: its user's)")
      ->check(CheckRole);
  made->add_option_function<std::string>(
      "--project", [request](const std::string& text) { request->set_project(text); },
      "the only project that it opens (default: all of its user's)");
  made->add_option_function<std::string>(
          "--claim", [request](const std::string& text) { request->set_claim(text); },
          "the claim to which it connects; it may do nothing else, and ends with the claim")
      ->check(CheckName);
  made->footer("Example: farcall pool token new alice.token --user alice --expires 30d");
  made->callback([pool, flags, &exit_code] { exit_code = NewToken(*pool, *flags); });
}

void AddTokenCommand(CLI::App& app, int& exit_code) {
  CLI::App* tokens = app.add_subcommand("token", "Tokens of users, and of claims");
  tokens->require_subcommand(1);
  AddNewToken(tokens, exit_code);
  CLI::App* list = tokens->add_subcommand("list", "Lists tokens; an operator sees all");
  auto pool = AddPoolOptions(list);
  list->callback([pool, &exit_code] { exit_code = ListTokens(*pool); });
  CLI::App* revoke = tokens->add_subcommand(
      "revoke", "Ends a token: nobody connects with it any more, and what runs goes on");
  auto of = AddPoolOptions(revoke);
  auto id = std::make_shared<std::string>();
  revoke->add_option("id", *id, "id of the token, as it is listed")->required()->check(CheckName);
  revoke->callback([of, id, &exit_code] { exit_code = RevokeToken(*of, *id); });
}

}  // namespace

void AddPoolAccounts(CLI::App& app, int& exit_code) {
  AddUserCommand(app, exit_code);
  AddTokenCommand(app, exit_code);
}

}  // namespace farcall::cli
