// SPDX-License-Identifier: Apache-2.0
// The commands of `farcall`. Each adds its subcommand and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>

namespace farcall::cli {

void AddServeCommand(CLI::App& app, int& exit_code);
void AddRunCommand(CLI::App& app, int& exit_code);
void AddEnvCommand(CLI::App& app, int& exit_code);
void AddBenchCommand(CLI::App& app, int& exit_code);
void AddDoctorCommand(CLI::App& app, int& exit_code);
void AddControlCommands(CLI::App& app, int& exit_code);
void AddTokenCommand(CLI::App& app, int& exit_code);
void AddCertCommand(CLI::App& app, int& exit_code);

}  // namespace farcall::cli
