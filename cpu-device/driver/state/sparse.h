// SPDX-License-Identifier: Apache-2.0
// Memory that costs nothing until it is touched, and how it stays so.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

// Sets device or host memory to zero. Large pieces of device memory are given back instead of
// written, on a device that keeps its memory sparse: they read as zeros.
void SetZero(uint64_t address, uint64_t bytes);

}  // namespace farcall::cpu_device
