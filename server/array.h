// SPDX-License-Identifier: Apache-2.0
// What the worker keeps of an array or mipmap.
#pragma once

#include <cstdint>

namespace farcall::server {

struct ArrayState {
  uint64_t parent = 0;  // the wire handle it is a level or plane of; 0: its own
};

}  // namespace farcall::server
