// SPDX-License-Identifier: Apache-2.0
// --oidc-*: the OpenID provider at which people log in to a pool.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "pool/oidc/provider.h"

namespace farcall::cli {

struct OidcFlags {
  pool::OidcOptions options;
  std::vector<std::string> roles;
  double hours = 12;
};

void AddOidcFlags(CLI::App* command, OidcFlags* flags);
// What they come to.   Errors  kInvalid, one line that names the flag
Status ReadOidcFlags(const OidcFlags& flags, pool::OidcOptions* options);

}  // namespace farcall::cli
