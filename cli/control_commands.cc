// SPDX-License-Identifier: Apache-2.0
// `farcall ps`, `top`, `quota` and `park`: handed to farcall-control, which brings gRPC; `farcall
// pool`, `login`, `logout` and `whoami` to farcall-pool.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/programs/client_environment.h"
#include "proto/exec_arguments.h"

namespace farcall::cli {

namespace {

std::string HelperProgram(const std::string& helper) {
  std::string path = OwnPath();
  for (int up = 0; up < 2; ++up)
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path + "/libexec/farcall/" + helper;
}

}  // namespace

int BecomeControl(const std::string& name, std::vector<std::string> rest) {
  const bool is_login = name == "login" || name == "logout" || name == "whoami";
  const bool is_pool = name == "pool" || is_login;
  if (is_login) rest.insert(rest.begin(), name);
  std::string program = HelperProgram(is_pool ? "farcall-pool" : "farcall-control");
  if (is_pool)
    rest.insert(rest.begin(), "farcall pool");
  else
    rest.insert(rest.begin(), {"farcall", name});
  execv(program.c_str(), ExecArguments(rest).data());
  std::fprintf(stderr, "farcall %s: %s: %s (it comes with the Debian package %s)\n", name.c_str(),
               program.c_str(), strerror(errno), is_pool ? "farcall-pool" : "farcall-client");
  return 1;
}

void AddControlCommands(CLI::App& app, int& exit_code) {
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"ps", "Lists a server's sessions"},
      {"top", "Shows devices, vGPUs and sessions, live"},
      {"quota", "Changes running quotas"},
      {"park", "Moves a vGPU's memory off its devices until it works again"},
      {"pool", "GPUs of many hosts behind one endpoint"},
      {"login", "Keeps a pool's URL and a token for it"},
      {"logout", "Deletes what login has kept"},
      {"whoami", "Says whose a pool's token is, and its roles"}};
  for (const auto& [name, does] : commands) {
    CLI::App* command = app.add_subcommand(name, does);
    command->set_help_flag();  // its own answers --help
    command->prefix_command();
    command->callback([command, name = name, &exit_code] {
      exit_code = BecomeControl(name, command->remaining());
    });
  }
}

}  // namespace farcall::cli
