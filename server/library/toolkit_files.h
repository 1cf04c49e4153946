// SPDX-License-Identifier: Apache-2.0
// What this host has of CUDA beside its driver, and where.
#pragma once

#include <string>
#include <vector>

#include "proto/library_file.h"
#include "proto/status.h"

namespace farcall::server {

// The folders that people name, toolkits, and NVIDIA's packages (nvidia/<name>), best first.
std::vector<std::string> LibraryFolders();
std::vector<std::string> ToolkitFolders();
std::vector<std::string> PackageFolders();

// A piece of a file of the toolkit's, or why there is none: the places looked at.
Status ReadToolkitFile(LibraryFile file, uint64_t from, uint64_t* whole, std::string* piece);

}  // namespace farcall::server
