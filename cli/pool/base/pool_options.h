// SPDX-License-Identifier: Apache-2.0
// Which pool a command asks: the flags of all verbs of `farcall pool`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "pool/client/rest_client.h"
#include "transport/tls/tls_session.h"

namespace farcall::cli {

struct PoolOptions {
  std::string url, token_file;
  TlsFiles tls;
  bool json = false;
};

// --pool, --ca, --cert, --key and --token-file.
std::shared_ptr<PoolOptions> AddPoolAddress(CLI::App* command);
// These and --json.
std::shared_ptr<PoolOptions> AddPoolOptions(CLI::App* command);

// What the flags say, else variables and settings.   Errors  kInvalid (the token's file)
Status FindPool(const PoolOptions& options, pool::PoolAddress* address);

}  // namespace farcall::cli
