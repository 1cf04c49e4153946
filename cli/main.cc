// SPDX-License-Identifier: Apache-2.0
// `farcall`: the command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/output/usage.h"
#include "cli/tls.h"
#include "cli/version.h"
#include "server/tls_gateway/gateway.h"
#include "server/worker/worker.h"

namespace {

// The arguments; what is a token does not stay where others on this machine read command lines and
// environments.
std::vector<std::string> TakeArguments(int argc, char** argv) {
  constexpr std::string_view kToken = "--token";
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (int i = 1; i < argc; ++i) {
    std::string_view text = argv[i];
    if (text == kToken && i + 1 < argc) {
      std::memset(argv[i + 1], 'x', std::strlen(argv[i + 1]));
      ++i;
    } else if (text.rfind("--token=", 0) == 0) {
      std::memset(argv[i] + kToken.size() + 1, 'x', text.size() - kToken.size() - 1);
    }
  }
  if (char* token = std::getenv("FARCALL_TOKEN"); token != nullptr) {
    std::memset(token, 'x', std::strlen(token));
    unsetenv("FARCALL_TOKEN");
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  // Not a command of people's: how the supervisor starts its workers.
  if (argc >= 2 && std::strcmp(argv[1], "worker") == 0)
    return farcall::server::WorkerMain(std::vector<std::string>(argv + 2, argv + argc));
  if (argc >= 2 && std::strcmp(argv[1], "tls-gateway") == 0)
    return farcall::server::TlsGatewayMain(std::vector<std::string>(argv + 2, argv + argc));
  farcall::cli::UseTls();
  CLI::App app("Farcall lets CUDA programs use a GPU on another machine as if it were local.",
               "farcall");
  app.set_version_flag("--version", farcall::cli::VersionLine());
  app.formatter(std::make_shared<farcall::cli::WrappedHelp>());
  app.require_subcommand(1);
  int exit_code = 0;
  farcall::cli::AddServeCommand(app, exit_code);
  farcall::cli::AddRunCommand(app, exit_code);
  farcall::cli::AddEnvCommand(app, exit_code);
  farcall::cli::AddDoctorCommand(app, exit_code);
  farcall::cli::AddDevicesCommand(app, exit_code);
  farcall::cli::AddTokenCommand(app, exit_code);
  farcall::cli::AddCertCommand(app, exit_code);
  farcall::cli::AddControlCommands(app, exit_code);
  farcall::cli::AddBenchCommand(app, exit_code);
  farcall::cli::AddNetcheckCommand(app, exit_code);
  farcall::cli::AddCompletionCommand(app, exit_code);
  if (argc == 1) {
    std::printf("%s", app.help().c_str());
    return 0;
  }
  try {
    if (argc >= 2 && std::strcmp(argv[1], "serve") == 0) {
      std::vector<std::string> arguments = TakeArguments(argc, argv);
      std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
      app.parse(std::move(arguments));
    } else {
      app.parse(argc, argv);
    }
  } catch (const CLI::ParseError& error) {
    return farcall::cli::ExplainUsage(app, error);
  } catch (const std::exception& error) {  // out of memory, or of threads
    std::fprintf(stderr, "farcall: %s\n", error.what());
    return 1;
  }
  return exit_code;
}
