// SPDX-License-Identifier: Apache-2.0
// Memory for device-side malloc. Bookkeeping lies outside of it: kernels may overwrite what they
// were not given.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

uint64_t DeviceHeapAllocate(uint64_t bytes);  // 16-byte aligned; 0 = full or none given
void DeviceHeapFree(uint64_t address);        // unknown addresses are ignored

}  // namespace farcall::cpu_device
