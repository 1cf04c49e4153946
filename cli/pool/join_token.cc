// SPDX-License-Identifier: Apache-2.0
// `farcall pool join-token new`, `list` and `revoke`.
#include <cstdio>
#include <ctime>
#include <memory>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

struct JoinFlags {
  std::string file, host, expires = "1h", note;
  uint32_t uses = 1;
};

int New(const PoolOptions& pool, const JoinFlags& flags) {
  pb::JoinTokenRequest request;
  request.set_expires_s(ReadDuration(flags.expires));
  request.set_host(flags.host);
  request.set_max_uses(flags.uses);
  request.set_note(flags.note);
  pb::JoinToken made;
  int code = Call(pool, "POST", "/v1/join-tokens", &request, &made);
  if (code != 0 || pool.json) return code;
  if (flags.file.empty()) {
    std::printf("%s\n", Printable(made.token()).c_str());
    return 0;
  }
  return WriteTokenFile(flags.file, made.token());
}

void Print(const pb::JoinToken& token) {
  const long long left = token.expires() - static_cast<long long>(std::time(nullptr));
  std::printf(
      "%-16s %5u of %-4u %10s %-16s %-16s %s\n", Printable(token.id()).c_str(), token.uses(),
      token.max_uses(), left < 0 ? "expired" : (std::to_string(left) + " s").c_str(),
      token.host().empty() ? "any" : Printable(token.host()).c_str(),
      Printable(token.made_by()).c_str(), Printable(token.note(), kMaxMessageBytes).c_str());
}

void PrintHead() {
  std::printf("%-16s %13s %10s %-16s %-16s %s\n", "TOKEN", "USED", "EXPIRES", "HOST", "MADE BY",
              "NOTE");
}

int List(const PoolOptions& pool) {
  pb::JoinTokenList list;
  std::string page;
  bool is_first = true;
  do {
    list.Clear();
    const int code =
        Call(pool, "GET", "/v1/join-tokens?limit=1000&page_token=" + page, nullptr, &list);
    if (code != 0) return code;
    page = list.next_page_token();
    if (pool.json) continue;
    if (std::exchange(is_first, false)) PrintHead();
    for (const pb::JoinToken& token : list.join_tokens()) Print(token);
  } while (!page.empty());
  return 0;
}

int Revoke(const PoolOptions& pool, const std::string& id) {
  pb::JoinToken token;
  const int code = Call(pool, "DELETE", "/v1/join-tokens/" + id, nullptr, &token);
  if (code == 0 && !pool.json)
    std::printf("%s is revoked; the %u host(s) that joined by it stay\n", Printable(id).c_str(),
                token.uses());
  return code;
}

void AddNew(CLI::App* parent, int& exit_code) {
  CLI::App* command =
      parent->add_subcommand("new", "Makes a token with which a host can join, once or more often");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<JoinFlags>();
  command->add_option("file", flags->file,
                      "new file for the token, readable by its owner only (default: print it)");
  command->add_option("--expires", flags->expires, "time until the token expires: 90s, 30m, 1h, 7d")
      ->check(CheckDuration)
      ->capture_default_str();
  command->add_option("--uses", flags->uses, "how many times a host may join by it")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--host", flags->host,
                   "name of the host; also replaces a host of that name that has lost its "
                   "credential (default: any free name)")
      ->check(CheckName);
  command->add_option("--note", flags->note, "text that `list` shows");
  command->footer(
      "Example: farcall pool join-token new gpu7.token --host gpu7\n"
      "         farcall serve --pool https://pool:7719 --pool-name gpu7 --pool-token-file "
      "gpu7.token\n"
      "         farcall pool join-token new rack.token --uses 16 --expires 1d --note \"rack 4\"");
  command->callback([pool, flags, &exit_code] { exit_code = New(*pool, *flags); });
}

}  // namespace

void AddPoolJoinToken(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("join-token", "Tokens with which hosts join the pool");
  command->require_subcommand(1);
  AddNew(command, exit_code);
  CLI::App* list = command->add_subcommand("list", "Lists the tokens that are good still");
  auto options = AddPoolOptions(list);
  list->callback([options, &exit_code] { exit_code = List(*options); });
  CLI::App* gone =
      command->add_subcommand("revoke", "Revokes a token; hosts that joined by it stay");
  auto pool = AddPoolOptions(gone);
  auto id = std::make_shared<std::string>();
  gone->add_option("token", *id, "what `list` calls it: j-0123456789ab")
      ->required()
      ->check(CheckName);
  gone->callback([pool, id, &exit_code] { exit_code = Revoke(*pool, *id); });
}

}  // namespace farcall::cli
