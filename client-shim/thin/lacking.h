// SPDX-License-Identifier: Apache-2.0
// Functions that the server's library does not have.
#pragma once

#include <cstdint>

namespace farcall::thin {

// The answer of one, logged once.
int RefuseLacking(uint16_t function);

}  // namespace farcall::thin
