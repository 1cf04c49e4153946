// SPDX-License-Identifier: Apache-2.0
// What NVML says each process has of each device's memory: for the supervisor, which loads no
// library of a driver, by a process of its own.
#pragma once

#include <string>
#include <vector>

namespace farcall::server {

// `farcall worker process-memory NVML UUID...`: answers kAskProcessMemory on the control descriptor
// until that ends; the process's exit code. A UUID is as CUDA has it, be it a GPU's or an
// instance's.
int TellProcessMemory(const std::string& nvml_path, const std::vector<std::string>& uuids);

}  // namespace farcall::server
