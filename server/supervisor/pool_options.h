// SPDX-License-Identifier: Apache-2.0
// How a server is a host of a pool.
#pragma once

#include <string>
#include <vector>

namespace farcall::server {

struct PoolOptions {
  std::string url;                     // of the pool; empty: this server is in none
  std::string name;                    // of this host there; empty: the machine's
  std::string join_token;              // empty: none is wanted
  std::string ca_file;                 // of an https URL; empty: the machine's
  std::vector<std::string> advertise;  // where clients reach this server
};

}  // namespace farcall::server
