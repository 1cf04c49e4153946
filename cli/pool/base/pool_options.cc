// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/pool_options.h"

#include <cstdlib>

#include "cli/flags/pool_tls.h"
#include "cli/login_file.h"
#include "cli/pool/base/commands.h"

namespace farcall::cli {

std::shared_ptr<PoolOptions> AddPoolAddress(CLI::App* command) {
  auto pool = std::make_shared<PoolOptions>();
  command->add_option("--pool", pool->url,
                      "http:// or https:// URL of the pool's REST interface (default: "
                      "FARCALL_POOL, then that of `farcall login`, else "
                      "http://127.0.0.1:7719)");
  command->add_option("--ca", pool->tls.authorities,
                      "CA certificates for https:// (default: FARCALL_POOL_CA, then FARCALL_CA, "
                      "else the system's)");
  command->add_option("--cert", pool->tls.certificate,
                      "PEM file of a certificate for a pool that asks for one (default: "
                      "FARCALL_CERT)");
  command->add_option("--key", pool->tls.key, "PEM file of its key (default: FARCALL_KEY)");
  command->add_option("--token-file", pool->token_file,
                      "file whose first line is a token of the pool (default: FARCALL_TOKEN, "
                      "FARCALL_TOKEN_FILE, then that of `farcall login` for this pool)");
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
  address->url = or_given(options.url, "FARCALL_POOL", "");
  address->tls = PoolTlsFiles(options.tls);
  FARCALL_TRY(ReadPoolToken(options.token_file, &address->token));
  if (!address->url.empty() && !address->token.empty()) return {};
  Result<std::optional<Login>> login = ReadLogin();
  if (!login.ok()) return login.status();
  if (address->url.empty()) address->url = *login ? (*login)->url : "http://127.0.0.1:7719";
  // The token is that pool's: no other is shown it.
  if (!*login || address->url != (*login)->url) return {};
  if (address->token.empty()) address->token = (*login)->token;
  if (address->tls.authorities.empty()) address->tls.authorities = (*login)->ca;
  return {};
}

}  // namespace farcall::cli
