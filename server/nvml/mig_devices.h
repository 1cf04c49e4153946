// SPDX-License-Identifier: Apache-2.0
// The MIG instances of this machine's GPUs, as NVML lists them. Making and removing them is the
// operator's (nvidia-smi mig).
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// The UUIDs ("MIG-...") of the instances, by GPU and number. `device_path`: the libcuda.so.1 whose
// NVML is asked. `gpus`: of which GPUs, by their numbers or UUIDs, or the instances themselves;
// empty: all.   Loads NVML into this process for good.
//   Errors  kUnavailable (no NVML, no instance; one line)
Result<std::vector<std::string>> MigDevices(const std::string& device_path,
                                            const std::string& gpus);

}  // namespace farcall::server
