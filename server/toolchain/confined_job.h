// SPDX-License-Identifier: Apache-2.0
// A compiler at work for a tenant: a source, an option or an archive may name any file, so the
// thread that runs it opens none but the compiler's own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// Runs `job` on a thread of its own that reads files below `folders` alone, and waits for its end.
// `trust_tenants`: where the kernel cannot confine it, it runs nevertheless.
//   Errors  kUnavailable, one line: the kernel has no Landlock; `job` has not run
//   Thread  any; Landlock holds for a thread and for good, so each job has its own
Status RunConfined(const std::vector<std::string>& folders, bool trust_tenants,
                   const std::function<void()>& job);

}  // namespace farcall::server
