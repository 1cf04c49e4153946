// SPDX-License-Identifier: Apache-2.0
// The names a shared object or program takes from others.
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::cli {

// The undefined dynamic symbols of a 64-bit little-endian ELF file.
//   Errors  kInvalid (no such ELF file, or its tables reach outside it)
Result<std::vector<std::string>> UndefinedSymbols(const std::string& path);

}  // namespace farcall::cli
