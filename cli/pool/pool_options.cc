// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/pool_options.h"

#include <cstdlib>

#include "cli/pool/commands.h"
#include "cli/pool_tls.h"

namespace farcall::cli {

std::shared_ptr<PoolOptions> AddPoolAddress(CLI::App* command) {
  auto pool = std::make_shared<PoolOptions>();
  command->add_option("--pool", pool->url,
                      "http:// or https:// URL of the pool's REST interface (default: "
                      "FARCALL_POOL, else http://127.0.0.1:7719)");
  command->add_option("--ca", pool->tls.authorities,
                      "CA certificates for https:// (default: FARCALL_POOL_CA, then FARCALL_CA, "
                      "else the system's)");
  command->add_option("--cert", pool->tls.certificate,
                      "PEM file of a certificate for a pool that asks for one (default: "
                      "FARCALL_CERT)");
  command->add_option("--key", pool->tls.key, "PEM file of its key (default: FARCALL_KEY)");
  command->add_option("--token-file", pool->token_file,
                      "file whose first line is a token of the pool");
  return pool;
}

std::shared_ptr<PoolOptions> AddPoolOptions(CLI::App* command) {
  auto pool = AddPoolAddress(command);
  command->add_flag("--json", pool->json, "print the pool's answer as JSON");
  return pool;
}

Status FindPool(const PoolOptions& options, pool::PoolAddress* address) {
  auto or_given = [](const std::string& flag, const char* name, const char* otherwise) {
    const char* given = std::getenv(name);
    return !flag.empty() ? flag
                         : std::string(given != nullptr && *given != '\0' ? given : otherwise);
  };
  address->url = or_given(options.url, "FARCALL_POOL", "http://127.0.0.1:7719");
  address->tls = PoolTlsFiles(options.tls);
  return ReadPoolToken(options.token_file, &address->token);
}

}  // namespace farcall::cli
