// SPDX-License-Identifier: Apache-2.0
// `farcall`: the command line.
#include <cstring>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/usage.h"
#include "server/worker/worker.h"

int main(int argc, char** argv) {
  // Not a command of people's: how the supervisor starts its workers.
  if (argc >= 2 && std::strcmp(argv[1], "worker") == 0) {
    return farcall::server::WorkerMain(std::vector<std::string>(argv + 2, argv + argc));
  }
  CLI::App app("farcall makes a GPU on another machine look local.", "farcall");
  app.set_version_flag("--version", std::string("farcall ") + FARCALL_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  farcall::cli::AddServeCommand(app, exit_code);
  farcall::cli::AddRunCommand(app, exit_code);
  farcall::cli::AddEnvCommand(app, exit_code);
  farcall::cli::AddDoctorCommand(app, exit_code);
  farcall::cli::AddTokenCommand(app, exit_code);
  farcall::cli::AddControlCommands(app, exit_code);
  farcall::cli::AddBenchCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return farcall::cli::ExplainUsage(app, error);
  }
  return exit_code;
}
