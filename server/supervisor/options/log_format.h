// SPDX-License-Identifier: Apache-2.0
// The server's log: a line per message, whatever a peer's text in it holds.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace farcall::server {

// The form of settings/log_line.h, of which a logger's name is the component; each message as
// Printable has it.
std::unique_ptr<spdlog::formatter> MakeLogFormatter();

}  // namespace farcall::server
