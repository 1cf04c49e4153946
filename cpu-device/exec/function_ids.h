// SPDX-License-Identifier: Apache-2.0
// The value of a device function's address: an id no memory lies at, so that no kernel can jump to
// host code.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

inline constexpr uint64_t kFunctionIdBase = 0x7fcafe0000000000;
inline constexpr uint64_t kFunctionIdStep = 16;

inline uint64_t FunctionId(uint32_t index) {
  return kFunctionIdBase + kFunctionIdStep * (index + 1);
}

}  // namespace farcall::cpu_device
