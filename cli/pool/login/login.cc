// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/login/login.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "cli/flags/pool_tls.h"
#include "cli/login_file.h"
#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/pool_options.h"
#include "cli/pool/login/oidc_login.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

Status Failed(const std::string& path) {
  return {Code::kInvalid, "'" + path + "': " + std::strerror(errno)};
}

// For its owner alone, and never half of it.
Status WriteLogin(const Login& login) {
  const std::string path = LoginPath(), draft = path + ".new";
  if (path.empty()) return {Code::kInvalid, "neither HOME nor XDG_CONFIG_HOME is set"};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  unlink(draft.c_str());
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return Failed(draft);
  const std::string text =
      login.token + "\n" + login.url + "\n" + login.ca + "\n" + login.data + "\n";
  const bool is_whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  Status failed = is_whole ? Status() : Failed(draft);
  close(file);
  if (failed.ok() && rename(draft.c_str(), path.c_str()) != 0) failed = Failed(path);
  return failed;
}

// From the terminal unseen, or the first line of what comes in.
std::string AskForToken() {
  termios shown{};
  const bool is_terminal = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &shown) == 0;
  if (is_terminal) {
    std::fputs("Token: ", stderr);
    termios hidden = shown;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  std::string token;
  std::getline(std::cin, token);
  if (is_terminal) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    std::fputs("\n", stderr);
  }
  return token;
}

int Fail(const char* command, const Status& why) {
  std::fprintf(stderr, "farcall %s: %s\n", command,
               Printable(why.message(), kMaxMessageBytes).c_str());
  return why.code() == Code::kInvalid ? kExitUsage : kExitFailure;
}

void Print(const pb::Identity& told) {
  std::printf("pool     %s\n", Printable(told.pool()).c_str());
  const std::string who = !told.user().empty()     ? told.user()
                          : told.is_operator()     ? "the operator"
                          : !told.tenant().empty() ? told.tenant()
                                                   : "nobody";
  std::printf("user     %s\n", Printable(who).c_str());
  for (const pb::RoleBinding& role : told.roles())
    std::printf("role     %s%s%s\n", Printable(role.role()).c_str(),
                role.project().empty() ? "" : " in ", Printable(role.project()).c_str());
  if (!told.has_token()) return;
  std::printf("token    %s\n", Printable(told.token().id()).c_str());
  if (!told.token().claim().empty())
    std::printf("claim    %s\n", Printable(told.token().claim()).c_str());
}

int WhoAmI(const PoolOptions& pool) {
  pb::Identity told;
  const int code = Call(pool, "GET", "/v1/whoami", nullptr, &told);
  if (code == kExitOk && !pool.json) Print(told);
  return code;
}

struct LoginFlags {
  PoolOptions pool;
  bool by_device = false, by_browser = false;
  std::string oidc_ca;
  std::string id_token_file;  // "": none
};

// A token of the pool for who shows that of somebody whom the pool believes.
Status Exchange(const std::string& proof, pool::PoolAddress* address) {
  pb::OidcLogin login;
  login.set_id_token(proof);
  pb::Token token;
  FARCALL_TRY(pool::RestCall(*address, "POST", "/v1/login", &login, &token));
  address->token = token.token();
  return {};
}

// The token of a file: one of the provider that another program got, or a service account's.
Status ShowFile(const std::string& path, pool::PoolAddress* address) {
  std::ifstream file(path);
  std::string proof;
  if (!file) return Failed(path);
  if (!std::getline(file, proof) || proof.empty())
    return {Code::kInvalid, "--id-token-file '" + path + "': its first line is empty"};
  return Exchange(proof, address);
}

// A token of the pool for who logs in at its provider.
Status AskProvider(const LoginFlags& flags, pool::PoolAddress* address) {
  pb::Info info;
  if (Status asked = pool::RestGet(*address, "/v1/pool", &info); !asked.ok()) return asked;
  if (info.oidc_issuer().empty())
    return {Code::kRefused,
            "this pool has no OpenID provider (farcall pool serve --oidc-issuer names one)"};
  const OidcLoginAt at{info.oidc_issuer(), info.oidc_client(), flags.oidc_ca};
  Result<std::string> proof = flags.by_browser ? LogInByBrowser(at) : LogInByDevice(at);
  if (!proof.ok()) return proof.status();
  return Exchange(*proof, address);
}

int LogIn(const LoginFlags& flags) {
  const PoolOptions& pool = flags.pool;
  if (pool.url.rfind("https://", 0) != 0 &&
      !(pool.url.rfind("http://", 0) == 0 && IsLoopbackUrl("tcp://" + pool.url.substr(7))))
    return Fail("login", {Code::kInvalid, "URL '" + pool.url +
                                              "': https://, or http:// on this machine; others "
                                              "could read the token on its way"});
  pool::PoolAddress address;
  address.url = pool.url;
  address.tls = PoolTlsFiles(pool.tls);
  if (flags.by_device || flags.by_browser) {
    if (Status asked = AskProvider(flags, &address); !asked.ok()) return Fail("login", asked);
  } else if (!flags.id_token_file.empty()) {
    if (Status asked = ShowFile(flags.id_token_file, &address); !asked.ok())
      return Fail("login", asked);
  } else if (Status read = ReadPoolToken(pool.token_file, &address.token); !read.ok()) {
    return Fail("login", read);
  }
  if (address.token.empty()) address.token = AskForToken();
  if (!IsToken(address.token))
    return Fail("login",
                {Code::kInvalid, "no token was given: paste it, or name its file by --token-file"});
  pb::Identity told;
  if (Status asked = pool::RestGet(address, "/v1/whoami", &told); !asked.ok())
    return Fail("login", asked);
  pb::Info info;
  if (Status asked = pool::RestGet(address, "/v1/pool", &info); !asked.ok())
    return Fail("login", asked);
  Login login{pool.url, address.token, "", Printable(info.data())};
  if (!address.tls.authorities.empty()) {
    std::error_code error;
    login.ca = std::filesystem::absolute(address.tls.authorities, error).string();
  }
  if (Status written = WriteLogin(login); !written.ok()) return Fail("login", written);
  Print(told);
  return kExitOk;
}

int LogOut() {
  const std::string path = LoginPath();
  if (path.empty() || unlink(path.c_str()) == 0 || errno == ENOENT) return kExitOk;
  return Fail("logout", Failed(path));
}

}  // namespace

void AddLoginCommands(CLI::App& app, int& exit_code) {
  CLI::App* login = app.add_subcommand(
      "login", "Keeps a pool's URL and a token for it, which other commands then use");
  auto flags = std::make_shared<LoginFlags>();
  PoolOptions* to = &flags->pool;
  login->add_option("url", to->url, "https:// URL of the pool's REST interface")->required();
  login->add_option("--ca", to->tls.authorities, "CA certificates for https://, kept as well");
  login->add_option("--token-file", to->token_file,
                    "file whose first line is the token (default: FARCALL_TOKEN, "
                    "FARCALL_TOKEN_FILE, else it is asked for)");
  CLI::Option* device = login->add_flag(
      "--oidc", flags->by_device,
      "log in at the pool's OpenID provider: prints an address and a code for a browser anywhere");
  CLI::Option* browser =
      login
          ->add_flag("--browser", flags->by_browser,
                     "log in there with a browser on this machine, which comes back to it")
          ->excludes(device);
  login
      ->add_option("--id-token-file", flags->id_token_file,
                   "file whose first line is a token of that provider, or of a Kubernetes service "
                   "account, which is exchanged for one of the pool")
      ->excludes(device)
      ->excludes(browser);
  login->add_option("--oidc-ca", flags->oidc_ca,
                    "CA certificates for the provider (default: the system's)");
  login->footer(
      "The file is ~/.config/farcall/pool-login, readable by its owner only.\n"
      "Example: farcall login https://pool.example:7719 --ca ca.pem");
  login->callback([flags, &exit_code] { exit_code = LogIn(*flags); });
  app.add_subcommand("logout", "Deletes what login has kept; the token stays good")
      ->callback([&exit_code] { exit_code = LogOut(); });
  CLI::App* who = app.add_subcommand("whoami", "Says whose a token is, and its roles");
  auto pool = AddPoolOptions(who);
  who->callback([pool, &exit_code] { exit_code = WhoAmI(*pool); });
}

}  // namespace farcall::cli
