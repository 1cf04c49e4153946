// SPDX-License-Identifier: Apache-2.0
// `farcall devices` of a pool, which is asked by gRPC; of a server `farcall` asks itself.
#include <cstdio>
#include <memory>

#include "cli/control/commands.h"
#include "cli/control/pool_status.h"
#include "cli/control/view.h"

namespace farcall::cli {

namespace {

struct DevicesFlags {
  std::string endpoint, token_file, ca_file;
  bool json = false;
};

int PoolDevices(const DevicesFlags& flags) {
  Result<std::unique_ptr<PoolClient>> client =
      PoolClient::Open(flags.endpoint, flags.token_file, flags.ca_file);
  Result<pool::v1::PoolStatus> status =
      client.ok() ? (*client)->Ask() : Result<pool::v1::PoolStatus>(client.status());
  if (!status.ok()) {
    std::fprintf(stderr, "farcall devices: %s\n", status.status().message().c_str());
    return status.status().code() == Code::kInvalid ? 2 : 1;
  }
  std::fputs(
      (flags.json ? Json(*status) : DeviceTable(ShownOf(*status), OptionsOfStdout())).c_str(),
      stdout);
  return 0;
}

}  // namespace

void AddPoolDevicesCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DevicesFlags>();
  CLI::App* command = app.add_subcommand("devices", "Lists the devices of a pool");
  command->group("");  // people say `farcall devices`
  command->add_option("--endpoint", flags->endpoint)->required();
  command->add_option("--token-file", flags->token_file);
  command->add_option("--ca", flags->ca_file);
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] { exit_code = PoolDevices(*flags); });
}

}  // namespace farcall::cli
