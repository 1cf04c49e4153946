// SPDX-License-Identifier: Apache-2.0
// `farcall serve`: flags over the configuration file over defaults.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/flags/serve_flags.h"
#include "proto/printable.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/start_failure.h"
#include "server/supervisor/supervisor.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

constexpr char kSystemConfig[] = "/etc/farcall/server.toml";

Status ReadOptions(const ServeFlags& flags, const CLI::App& command,
                   server::ServeOptions* options) {
  if (!flags.config.empty())
    FARCALL_TRY(server::ReadServeConfig(flags.config, options));
  else if (access(kSystemConfig, F_OK) == 0)
    FARCALL_TRY(server::ReadServeConfig(kSystemConfig, options));
  return ApplyServeFlags(command, flags, options);
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serves this machine's devices");
  AddServeFlags(command, flags.get());
  command->footer(
      "Example: farcall serve --listen tls://0.0.0.0:7717 --token-file /etc/farcall/token "
      "--tls-cert gpu-host.pem --tls-key gpu-host.key --mem 8GiB");
  command->callback([flags, command, &exit_code] {
    server::ServeOptions options;
    Status read = ReadOptions(*flags, *command, &options);
    if (!read.ok()) {
      const std::string line = Printable(read.message(), kMaxMessageBytes);
      exit_code = server::SayWhyNot(kExitUsage, line);
      return;
    }
    exit_code = server::Serve(options);
  });
}

}  // namespace farcall::cli
