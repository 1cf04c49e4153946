// SPDX-License-Identifier: Apache-2.0
// By which files a pool is spoken to: flags, then variables and settings of clients.
#pragma once

#include <cstdlib>
#include <string>

#include "client-shim/core/settings/settings.h"
#include "transport/tls/tls_session.h"

namespace farcall::cli {

// FARCALL_POOL_CA, empty if it is not set.
inline std::string PoolCaVariable() {
  const char* given = std::getenv("FARCALL_POOL_CA");
  return given == nullptr ? std::string() : std::string(given);
}

// `flags`: what was given.
inline TlsFiles PoolTlsFiles(const TlsFiles& flags) {
  const auto settings = client::Settings::Load(client::Settings::Files());
  TlsFiles files = flags;
  if (files.authorities.empty()) files.authorities = PoolCaVariable();
  if (files.authorities.empty()) files.authorities = settings.Find("ca").value;
  if (!files.given()) {
    files.certificate = settings.Find("cert").value;
    files.key = settings.Find("key").value;
  }
  return files;
}

}  // namespace farcall::cli
