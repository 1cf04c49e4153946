// SPDX-License-Identifier: Apache-2.0
// `farcall login`, `logout` and `whoami`.
#pragma once

#include <CLI/CLI.hpp>

namespace farcall::cli {

void AddLoginCommands(CLI::App& app, int& exit_code);

}  // namespace farcall::cli
