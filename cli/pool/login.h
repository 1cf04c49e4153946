// SPDX-License-Identifier: Apache-2.0
// `farcall login`: where this user's pool is, and the token for it, kept in one file.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "proto/status.h"

namespace farcall::cli {

struct Login {
  std::string url, token;
  std::string ca;  // absolute path; empty: none was given
};

// $XDG_CONFIG_HOME/farcall/pool-login, or ~/.config/farcall/pool-login; "": there is no home.
std::string LoginPath();
// What the file holds; nullopt: there is none.
//   Errors  kInvalid (others may read it, or it cannot be read)
Result<std::optional<Login>> ReadLogin();

// `login`, `logout` and `whoami`.
void AddLoginCommands(CLI::App& app, int& exit_code);

}  // namespace farcall::cli
