// SPDX-License-Identifier: Apache-2.0
// How a server is a host of a pool.
#pragma once

#include <string>
#include <vector>

#include "transport/tls/tls_session.h"

namespace farcall::server {

struct PoolOptions {
  std::string url;                     // of the pool; empty: this server is in none
  std::string name;                    // of this host there; empty: the machine's
  std::string join_token;              // empty: none is wanted
  TlsFiles tls;                        // of an https URL, as a client's
  std::vector<std::string> advertise;  // where clients reach this server
};

}  // namespace farcall::server
