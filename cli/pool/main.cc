// SPDX-License-Identifier: Apache-2.0
// farcall-pool: what `farcall pool` becomes, and what `farcall serve --pool` starts as its agent.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "cli/output/usage.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/login/login.h"
#include "server/pool_agent/agent.h"

namespace {

// `farcall login` and its like have no `pool` between.
std::string NameOf(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  const bool is_short = command == "login" || command == "logout" || command == "whoami";
  return is_short ? "farcall" : "farcall pool";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("farcall pool: GPUs of many hosts behind one endpoint", NameOf(argc, argv));
  app.formatter(std::make_shared<farcall::cli::WrappedHelp>());
  app.require_subcommand(1);
  int exit_code = 0;
  farcall::cli::AddPoolServeCommand(app, exit_code);
  farcall::cli::AddPoolDevCommand(app, exit_code);
  farcall::cli::AddPoolVerbs(app, exit_code);
  farcall::cli::AddPoolJoinToken(app, exit_code);
  farcall::cli::AddPoolReservation(app, exit_code);
  farcall::cli::AddPoolQueueCommand(app, exit_code);
  farcall::cli::AddPoolProjectCommand(app, exit_code);
  farcall::cli::AddPoolGroup(app, exit_code);
  farcall::cli::AddPoolAccounts(app, exit_code);
  farcall::cli::AddPoolAudit(app, exit_code);
  farcall::cli::AddPoolApply(app, exit_code);
  farcall::cli::AddPoolLabel(app, exit_code);
  farcall::cli::AddPoolWatchClaim(app, exit_code);
  farcall::cli::AddPoolEnv(app, exit_code);
  farcall::cli::AddPoolReplay(app, exit_code);
  farcall::cli::AddPoolOpenApi(app, exit_code);
  farcall::cli::AddLoginCommands(app, exit_code);
  farcall::cli::AddK8sCommand(app, exit_code);
  auto pool = std::make_shared<farcall::pool::PoolAddress>();
  CLI::App* agent = app.add_subcommand("agent", "Started by farcall serve --pool");
  agent->group("");  // not a command of people's
  agent->add_option("--pool", pool->url)->required();
  agent->add_option("--ca", pool->tls.authorities);
  agent->add_option("--cert", pool->tls.certificate);
  agent->add_option("--key", pool->tls.key);
  agent->callback([pool, &exit_code] { exit_code = farcall::pool::RunAgent(*pool); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return farcall::cli::ExplainUsage(app, error);
  } catch (const std::exception& error) {  // out of memory, or of threads
    std::fprintf(stderr, "farcall pool: %s\n", error.what());
    return 1;
  }
  return exit_code;
}
