// SPDX-License-Identifier: Apache-2.0
// The flags by which commands are told where the server is, alike for all of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/control/client.h"

namespace farcall::cli {

// --endpoint and --control, for commands that ask one server.
inline void AddTargetFlags(CLI::App* command, ControlTarget* target) {
  command->add_option(
      "--endpoint", target->endpoint,
      "the server on this machine, by the URL that it listens on (default: the only one)");
  command->add_option("--control", target->path,
                      "the server's control socket, instead of --endpoint");
}

// The same, for commands that ask a pool as well: with its token and its CA.
inline void AddPoolTargetFlags(CLI::App* command, ControlTarget* target, std::string* token_file,
                               std::string* ca_file) {
  command->add_option(
      "--endpoint", target->endpoint,
      "the server on this machine, by the URL that it listens on, or "
      "pool:// or pools://host:port for all hosts of a pool (default: the only server)");
  command->add_option("--token-file", *token_file, "file whose first line is a token of the pool");
  command->add_option(
      "--ca", *ca_file,
      "CA certificates for a pool with TLS (default: FARCALL_POOL_CA, then FARCALL_CA, else the "
      "system's)");
  command->add_option("--control", target->path,
                      "the server's control socket, instead of --endpoint");
}

}  // namespace farcall::cli
