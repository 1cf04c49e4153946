// SPDX-License-Identifier: Apache-2.0
// The worker process: one session, or one look at the devices, then the end of the process.
#pragma once

#include <string>
#include <vector>

namespace farcall::server {

// `farcall worker`, `farcall worker warm PATH KERNEL_VARIABLE DEPTH`, `farcall worker probe PATH`,
// `farcall worker process-memory ...`; started by the supervisor only. The process's exit code.
inline constexpr char kInitialises[] = "initialised";  // a DEPTH: cuInit too
inline constexpr char kLoads[] = "loaded";
int WorkerMain(const std::vector<std::string>& arguments);

}  // namespace farcall::server
