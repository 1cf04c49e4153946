// SPDX-License-Identifier: Apache-2.0
#include "transport/run_folder.h"

#include <unistd.h>

#include <cstdlib>

namespace farcall {

std::string RunFolder() {
  const char* named = std::getenv("FARCALL_RUN_DIR");
  if (named != nullptr && *named == '/') return named;
  if (geteuid() == 0) return "/run/farcall";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/farcall";
  return "/tmp/farcall-" + std::to_string(geteuid());
}

std::string DefaultShmPath(uint16_t port) {
  return RunFolder() + "/" + std::to_string(port) + ".shm";
}

}  // namespace farcall
