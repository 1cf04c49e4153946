// SPDX-License-Identifier: Apache-2.0
// farcall-control: what of `farcall` speaks gRPC. `farcall ps`, `top`, `quota` and `park` become
// it; `farcall serve` starts it as its control service.
#include <cstdio>
#include <exception>
#include <string>

#include "cli/control/commands.h"
#include "cli/output/usage.h"
#include "server/control_plane/serve.h"

namespace {

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto metrics = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("serve", "Started by farcall serve");
  command->group("");  // not a command of people's
  command->add_option("--metrics", *metrics);
  command->callback([metrics, &exit_code] { exit_code = farcall::control_plane::Serve(*metrics); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("farcall: what runs on a server, and what it may use", "farcall");
  app.formatter(std::make_shared<farcall::cli::WrappedHelp>());
  app.require_subcommand(1);
  int exit_code = 0;
  farcall::cli::AddPsCommand(app, exit_code);
  farcall::cli::AddTopCommand(app, exit_code);
  farcall::cli::AddPoolDevicesCommand(app, exit_code);
  farcall::cli::AddQuotaCommand(app, exit_code);
  farcall::cli::AddParkCommand(app, exit_code);
  AddServeCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return farcall::cli::ExplainUsage(app, error);
  } catch (const std::exception& error) {  // out of memory, or of threads
    std::fprintf(stderr, "farcall: %s\n", error.what());
    return 1;
  }
  return exit_code;
}
