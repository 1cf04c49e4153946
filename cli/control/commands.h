// SPDX-License-Identifier: Apache-2.0
// The commands that talk to a server's control service: farcall ps, top, quota and park. They live
// in farcall-control, so that `farcall` itself needs no gRPC and runs in old images.
#pragma once

#include <CLI/CLI.hpp>

namespace farcall::cli {

void AddPsCommand(CLI::App& app, int& exit_code);
void AddTopCommand(CLI::App& app, int& exit_code);
void AddPoolDevicesCommand(CLI::App& app, int& exit_code);
void AddQuotaCommand(CLI::App& app, int& exit_code);
void AddParkCommand(CLI::App& app, int& exit_code);

}  // namespace farcall::cli
