// SPDX-License-Identifier: Apache-2.0
// The server's log: a line per message, whatever a peer's text in it holds.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace farcall::server {

// By `pattern`, with each message as Printable has it.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(const char* pattern);

}  // namespace farcall::server
