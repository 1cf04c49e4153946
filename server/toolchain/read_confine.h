// SPDX-License-Identifier: Apache-2.0
// A thread that may open nothing but what it is told: a compiler that runs a client's source opens
// whatever file that source names.
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// For this thread and those it starts, for good: files are read below `folders` alone, and none is
// written. What is open stays open.
//   Errors  kUnavailable: the kernel has no Landlock
Status ConfineReads(const std::vector<std::string>& folders);

}  // namespace farcall::server
