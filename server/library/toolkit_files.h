// SPDX-License-Identifier: Apache-2.0
// Files of this host's toolkit for clients.
#pragma once

#include <string>

#include "proto/library/library_file.h"
#include "proto/status.h"

namespace farcall::server {

// A piece of a file of the toolkit's, or why there is none: the places looked at.
Status ReadToolkitFile(LibraryFile file, uint64_t from, uint64_t* whole, std::string* piece);

}  // namespace farcall::server
