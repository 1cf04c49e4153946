// SPDX-License-Identifier: Apache-2.0
// Shares, limits and factors are in thousandths.
#pragma once

#include <cstdint>

namespace farcall {

inline constexpr uint32_t kWholeMilli = 1000;

}  // namespace farcall
