// SPDX-License-Identifier: Apache-2.0
// Memory files: what is too long for a control message goes beside it, as a sealed descriptor.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// A memory file with `bytes`, sealed: its receiver may read it at leisure. -1 on failure.
int MakeMemoryFile(const char* name, std::span<const std::byte> bytes);
// The content of such a file.   Errors  kMalformed (not sealed, no memory file, or above `limit`)
Result<std::vector<std::byte>> ReadMemoryFile(int fd, size_t limit);

}  // namespace farcall::server
