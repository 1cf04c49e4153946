// SPDX-License-Identifier: Apache-2.0
// Alone in a file: it is what a new commit compiles again.
#include "cli/version.h"

#include "generated/farcall_commit.h"
#include "proto/wire.h"

namespace farcall::cli {

std::string VersionLine() {
  return "farcall " FARCALL_VERSION " (commit " FARCALL_COMMIT ", wire " +
         std::to_string(kWireMajor) + "." + std::to_string(kWireMinor) + ")";
}

}  // namespace farcall::cli
