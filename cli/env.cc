// SPDX-License-Identifier: Apache-2.0
// `farcall env`: the lines for `eval`.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/programs/client_environment.h"
#include "cli/programs/thin_libraries.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

// For a POSIX shell.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (char letter : text) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

}  // namespace

void AddEnvCommand(CLI::App& app, int& exit_code) {
  auto settings = std::make_shared<ClientSettings>();
  CLI::App* command = app.add_subcommand("env", "Prints the environment a program needs, for eval");
  command->add_option("--endpoint", settings->endpoint,
                      "the server (default: FARCALL_ENDPOINT, then config.toml)");
  command->add_flag("--thin", settings->thin, "also CUDA's other libraries, from lib/farcall/thin");
  AddTlsFlags(command, settings.get());
  command->footer("Example: eval \"$(farcall env --endpoint tls://gpu-host:7717)\"");
  command->callback([settings, &exit_code] {
    if (DriverLibraryFolder().empty()) {
      std::fprintf(stderr,
                   "farcall env: lib/farcall/libcuda.so.1 is not beside this binary's folder\n");
      exit_code = 1;
      return;
    }
    if (settings->thin && ThinLibraryFolder().empty()) {
      std::fprintf(stderr, "farcall env: lib/farcall/thin is not beside this binary's folder\n");
      exit_code = 1;
      return;
    }
    if (!settings->endpoint.empty()) {
      const Result<std::string> whole = WholeEndpoints(settings->endpoint);
      if (!whole.ok()) {
        std::fprintf(stderr, "farcall env: --endpoint: %s\n", whole.status().message().c_str());
        exit_code = kExitUsage;
        return;
      }
      settings->endpoint = *whole;
    }
    for (const auto& [name, value] : ClientEnvironment(*settings))
      std::printf("export %s=%s\n", name.c_str(), Quoted(value).c_str());
  });
}

}  // namespace farcall::cli
