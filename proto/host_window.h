// SPDX-License-Identifier: Apache-2.0
// Where page-locked and managed host memory lies, so that the server can have it at the same
// address: the client takes the first of these windows it can reserve.
#pragma once

#include <algorithm>
#include <iterator>

#include "proto/wire.h"

namespace farcall {

inline constexpr uint64_t kHostPageBytes = 4096;

// The first lies where ThreadSanitizer lets programs have memory, the second where AddressSanitizer
// does; the last is for an address-space limit.
inline constexpr Window kHostWindows[] = {
    {0x010000000000, uint64_t{512} << 30},
    {0x500000000000, uint64_t{512} << 30},
    {0x000400000000, uint64_t{4} << 30},
};
inline bool InHostWindows(uint64_t address, uint64_t bytes) {
  return std::any_of(std::begin(kHostWindows), std::end(kHostWindows),
                     [&](const Window& window) { return window.Contains(address, bytes); });
}

}  // namespace farcall
