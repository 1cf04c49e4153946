// SPDX-License-Identifier: Apache-2.0
// Where page-locked and managed host memory lies, so that the server can have it at the same
// address: the client takes the first of these windows it can reserve.
#pragma once

#include <algorithm>
#include <iterator>

#include "proto/wire.h"

namespace farcall {

inline constexpr uint64_t kHostPageBytes = 4096;

// Where NVIDIA's driver runs (580.159, H200), what lies at 0x010000000000 is taken, so that the
// second is for other drivers. AddressSanitizer lets programs have memory in the first,
// ThreadSanitizer in the third; the last are for an address-space limit, one of them beside the
// smallest window of device memory.
inline constexpr Window kHostWindows[] = {
    {0x500000000000, uint64_t{512} << 30}, {0x010000000000, uint64_t{512} << 30},
    {0x002000000000, uint64_t{128} << 30}, {0x001400000000, uint64_t{4} << 30},
    {0x000400000000, uint64_t{4} << 30},
};
inline bool InHostWindows(uint64_t address, uint64_t bytes) {
  return std::any_of(std::begin(kHostWindows), std::end(kHostWindows),
                     [&](const Window& window) { return window.Contains(address, bytes); });
}

}  // namespace farcall
