// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/start_failure.h"

#include <cstdio>
#include <cstdlib>

namespace farcall::server {

int SayWhyNot(int code, const std::string& why) {
  if (std::getenv(kTellStarterVariable) != nullptr) {
    std::printf("%s%s\n", std::string(kNotServing).c_str(), why.c_str());
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "farcall serve: %s\n", why.c_str());
  }
  return code;
}

}  // namespace farcall::server
