// SPDX-License-Identifier: Apache-2.0
// `farcall cert`: a private certificate authority for tls://, one command for each step.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cli/commands.h"
#include "proto/text_file.h"
#include "settings/exit_code.h"
#include "transport/tls/certificates.h"

namespace farcall::cli {

namespace {

constexpr mode_t kPublic = 0644, kSecret = 0600;
constexpr int kAuthorityDays = 3650, kCertificateDays = 397;

struct Flags {
  std::string folder = ".", name;
  std::vector<std::string> hosts, uris;
  int days = 0;
};

// Never over a file that is there: an authority's key cannot be had again.
Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, mode);
  if (file < 0) {
    return {errno == EEXIST ? Code::kInvalid : Code::kUnavailable,
            "'" + path + "': " + std::strerror(errno)};
  }
  const bool is_whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = is_whole ? "" : std::strerror(errno);
  close(file);
  return is_whole ? Status() : Status(Code::kUnavailable, "'" + path + "': " + why);
}

Status WritePair(const std::string& stem, const PemPair& pair) {
  FARCALL_TRY(WriteNew(stem + ".key", pair.key, kSecret));
  FARCALL_TRY(WriteNew(stem + ".pem", pair.certificate, kPublic));
  std::printf("%s.pem  %s.key\n", stem.c_str(), stem.c_str());
  return {};
}

Status Init(const Flags& flags) {
  Result<PemPair> made = MakeAuthority(flags.name, flags.days);
  return made.ok() ? WritePair(flags.folder + "/ca", *made) : made.status();
}

Status Issue(const Flags& flags) {
  if (flags.name.empty() || flags.name.find('/') != std::string::npos || flags.name == "ca")
    return {Code::kInvalid, "'" + flags.name + "' is no name for files: want one without '/'"};
  PemPair authority;
  for (const auto& [file, into] :
       {std::pair("/ca.pem", &authority.certificate), std::pair("/ca.key", &authority.key)}) {
    Result<std::string> text = ReadTextFile(flags.folder + file);
    if (!text.ok()) {
      return {Code::kInvalid, "'" + flags.folder + file + "': " + text.status().message() +
                                  " (`farcall cert init` makes an authority)"};
    }
    *into = *text;
  }
  Result<PemPair> made =
      IssueCertificate(authority, {flags.name, flags.hosts, flags.uris, flags.days});
  return made.ok() ? WritePair(flags.folder + "/" + flags.name, *made) : made.status();
}

void Finish(const char* verb, const Status& done, int& exit_code) {
  if (!done.ok()) {
    std::fprintf(stderr, "farcall cert %s: %s\n", verb, done.message().c_str());
    exit_code = done.code() == Code::kInvalid ? kExitUsage : kExitFailure;
  }
}

void AddCommon(CLI::App* command, Flags* flags, int days) {
  flags->days = days;
  command->add_option("--dir", flags->folder, "folder of the authority's files")->default_str(".");
  command->add_option("--days", flags->days, "days of validity")
      ->default_str(std::to_string(days))
      ->check(CLI::Range(1, 36500));
}

}  // namespace

void AddCertCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("cert", "Runs a private certificate authority for tls://");
  command->require_subcommand(1);

  auto init_flags = std::make_shared<Flags>();
  init_flags->name = "Farcall private CA";
  CLI::App* init = command->add_subcommand("init", "Makes an authority: ca.pem and ca.key");
  AddCommon(init, init_flags.get(), kAuthorityDays);
  init->add_option("--name", init_flags->name, "its name in certificates")
      ->default_str(init_flags->name);
  init->footer("Example: farcall cert init --dir /etc/farcall/tls");
  init->callback([init_flags, &exit_code] { Finish("init", Init(*init_flags), exit_code); });

  auto issue_flags = std::make_shared<Flags>();
  CLI::App* issue = command->add_subcommand(
      "issue", "Issues a certificate for a server or a client: NAME.pem and NAME.key");
  issue->add_option("name", issue_flags->name, "name of the files and of the certificate")
      ->required();
  AddCommon(issue, issue_flags.get(), kCertificateDays);
  issue->add_option("--host", issue_flags->hosts,
                    "DNS name or address at which clients reach the server; may be repeated");
  issue->add_option("--uri", issue_flags->uris,
                    "identity of a client, such as farcall:team-a; may be repeated");
  issue->footer(
      "Examples: farcall cert issue gpu-host --host gpu-host.example --host 10.0.0.7\n"
      "          farcall serve --listen tls://0.0.0.0:7717 --token-file token "
      "--tls-cert gpu-host.pem --tls-key gpu-host.key\n"
      "          farcall run --endpoint tls://gpu-host.example:7717 --ca ca.pem -- ./train");
  issue->callback([issue_flags, &exit_code] { Finish("issue", Issue(*issue_flags), exit_code); });
}

}  // namespace farcall::cli
