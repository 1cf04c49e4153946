// SPDX-License-Identifier: Apache-2.0
// What the driver tells the executor of memory that is not in the device's window.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

// Memory that kernels may touch, as long as the driver's ranges have this version.
struct KnownRange {
  uint64_t begin = 0, bytes = 0, version = 0;
};

}  // namespace farcall::cpu_device
