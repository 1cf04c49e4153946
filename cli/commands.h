// SPDX-License-Identifier: Apache-2.0
// The commands of `farcall`. Each adds its subcommand and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace farcall::cli {

void AddServeCommand(CLI::App& app, int& exit_code);
void AddRunCommand(CLI::App& app, int& exit_code);
void AddEnvCommand(CLI::App& app, int& exit_code);
void AddBenchCommand(CLI::App& app, int& exit_code);
void AddNetcheckCommand(CLI::App& app, int& exit_code);
void AddDoctorCommand(CLI::App& app, int& exit_code);
void AddDevicesCommand(CLI::App& app, int& exit_code);
void AddControlCommands(CLI::App& app, int& exit_code);
void AddCompletionCommand(CLI::App& app, int& exit_code);
void AddTokenCommand(CLI::App& app, int& exit_code);
void AddCertCommand(CLI::App& app, int& exit_code);

// Becomes farcall-control with `command`; its exit code if it cannot.
int BecomeControl(const std::string& command, std::vector<std::string> rest);

// Of --endpoint, alike for all that ask a server.
inline constexpr char kServerHelp[] =
    "the server: host, tcp://, tls://, pool:// or pools://host:port (default: FARCALL_ENDPOINT, "
    "then "
    "config.toml, then the only server on this machine)";

}  // namespace farcall::cli
