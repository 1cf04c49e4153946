// SPDX-License-Identifier: Apache-2.0
// The verbs of `farcall pool`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "proto/status.h"

namespace farcall::cli {

void AddPoolServeCommand(CLI::App& app, int& exit_code);
void AddPoolDevCommand(CLI::App& app, int& exit_code);
void AddPoolVerbs(CLI::App& app, int& exit_code);
void AddPoolJoinToken(CLI::App& app, int& exit_code);
void AddPoolReservation(CLI::App& app, int& exit_code);
void AddPoolQueueCommand(CLI::App& app, int& exit_code);
void AddPoolProjectCommand(CLI::App& app, int& exit_code);
void AddPoolGroup(CLI::App& app, int& exit_code);
void AddPoolAudit(CLI::App& app, int& exit_code);
void AddPoolAccounts(CLI::App& app, int& exit_code);
void AddPoolApply(CLI::App& app, int& exit_code);
void AddPoolLabel(CLI::App& app, int& exit_code);
void AddPoolWatchClaim(CLI::App& app, int& exit_code);
void AddPoolEnv(CLI::App& app, int& exit_code);
void AddPoolReplay(CLI::App& app, int& exit_code);
void AddPoolOpenApi(CLI::App& app, int& exit_code);
void AddK8sCommand(CLI::App& app, int& exit_code);

// FARCALL_TOKEN, else the first line of FARCALL_TOKEN_FILE or of `file`.   Errors  kInvalid
Status ReadPoolToken(const std::string& file, std::string* token);

}  // namespace farcall::cli
