// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace farcall::cli {

// What `farcall --version` prints: "farcall 0.1.0 (commit 0123456789ab, wire 2.0)".
//   Thread  any
std::string VersionLine();

}  // namespace farcall::cli
