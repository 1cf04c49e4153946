// SPDX-License-Identifier: Apache-2.0
// What clients and operators are told of where the server is.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace farcall::server {

inline std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace farcall::server
