// SPDX-License-Identifier: Apache-2.0
// `farcall token new`: makes a token, and what a server keeps of it.
#include "proto/handshake/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "cli/commands.h"
#include "server/supervisor/options/serve_options.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

struct Flags {
  std::string file, verifier, name, from;
};

Status Write(const std::string& path, const std::string& line, int flags) {
  int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600);
  if (file < 0) return {Code::kUnavailable, "'" + path + "': " + std::strerror(errno)};
  const std::string text = line + "\n";
  const bool is_whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = is_whole ? "" : std::strerror(errno);
  close(file);
  return is_whole ? Status() : Status(Code::kUnavailable, "'" + path + "': " + why);
}

Status New(const Flags& flags) {
  if (!flags.name.empty()) FARCALL_TRY(CheckTokenName(flags.name));
  if (!flags.from.empty() && flags.verifier.empty())
    return {Code::kInvalid, "--from without --verifier FILE leaves nothing to be written"};
  Result<std::string> token =
      flags.from.empty() ? Result<std::string>(NewToken()) : server::ReadTokenFile(flags.from);
  if (!token.ok()) return token.status();
  if (!flags.file.empty()) FARCALL_TRY(Write(flags.file, *token, O_CREAT | O_EXCL));
  if (!flags.verifier.empty()) {
    TokenVerifier verifier = TokenKeys(*token).verifier();
    verifier.name = flags.name;
    FARCALL_TRY(Write(flags.verifier, ToText(verifier), O_CREAT | O_APPEND));
  }
  if (flags.file.empty() && flags.from.empty()) std::printf("%s\n", token->c_str());
  Wipe(&*token);
  return {};
}

}  // namespace

void AddTokenCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("token", "Makes tokens for clients and servers");
  command->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  CLI::App* made = command->add_subcommand("new", "Makes a token of 256 random bits");
  made->add_option("file", flags->file,
                   "new file for the token, readable by its owner only (default: print it)");
  made->add_option("--verifier", flags->verifier,
                   "file to which the token's verifier is appended, for `farcall serve "
                   "--token-verifier`; nobody can log in with a verifier");
  made->add_option("--name", flags->name, "name of the token in the verifier's line");
  made->add_option("--from", flags->from, "existing token file; only its verifier is made");
  made->footer(
      "Example: farcall token new team-a.token --verifier /etc/farcall/verifiers --name team-a\n"
      "         farcall serve --listen tls://0.0.0.0:7717 --tls-cert gpu-host.pem --tls-key "
      "gpu-host.key --token-verifier /etc/farcall/verifiers");
  made->callback([flags, &exit_code] {
    Status done = New(*flags);
    if (done.ok()) return;
    std::fprintf(stderr, "farcall token new: %s\n", done.message().c_str());
    exit_code = done.code() == Code::kInvalid ? kExitUsage : kExitFailure;
  });
}

}  // namespace farcall::cli
