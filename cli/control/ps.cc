// SPDX-License-Identifier: Apache-2.0
// `farcall ps`: who uses the server's devices.
#include <cstdio>
#include <memory>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/pool_status.h"
#include "cli/control/target_flags.h"
#include "cli/control/view.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

struct PsFlags {
  ControlTarget target;
  std::string token_file, ca_file;
  bool json = false;
};

int PsOfPool(const PsFlags& flags) {
  Result<std::unique_ptr<PoolClient>> client =
      PoolClient::Open(flags.target.endpoint, flags.token_file, flags.ca_file);
  Result<pool::v1::PoolStatus> status =
      client.ok() ? (*client)->Ask() : Result<pool::v1::PoolStatus>(client.status());
  if (!status.ok()) {
    std::fprintf(stderr, "farcall ps: %s\n", status.status().message().c_str());
    return status.status().code() == Code::kInvalid ? 2 : 1;
  }
  std::fputs(
      (flags.json ? Json(*status) : SessionTable(ShownOf(*status), OptionsOfStdout())).c_str(),
      stdout);
  return 0;
}

int Ps(PsFlags flags) {
  if (Status known = Resolve(&flags.target); !known.ok()) {
    std::fprintf(stderr, "farcall ps: %s\n", known.message().c_str());
    return 2;
  }
  if (IsPoolUrl(flags.target.endpoint)) return PsOfPool(flags);
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok()) {
    std::fprintf(stderr, "farcall ps: %s\n", path.status().message().c_str());
    return path.status().code() == Code::kInvalid ? 2 : 1;
  }
  grpc::ClientContext context;
  pb::ServerStatus status;
  grpc::Status asked = Dial(*path)->GetStatus(&context, {}, &status);
  if (!asked.ok()) {
    std::fprintf(stderr, "farcall ps: %s\n", Explain(asked, *path).c_str());
    return 1;
  }
  std::fputs((flags.json ? Json(status) : SessionTable(ShownOf(status), OptionsOfStdout())).c_str(),
             stdout);
  return 0;
}

}  // namespace

void AddPsCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PsFlags>();
  CLI::App* command = app.add_subcommand("ps", "Lists a server's sessions");
  AddPoolTargetFlags(command, &flags->target, &flags->token_file, &flags->ca_file);
  command->add_flag("--json", flags->json, "print everything as JSON (proto/control.proto)");
  command->footer("Example: farcall ps --endpoint tcp://127.0.0.1:7717");
  command->callback([flags, &exit_code] { exit_code = Ps(*flags); });
}

}  // namespace farcall::cli
