// SPDX-License-Identifier: Apache-2.0
// What the worker keeps of a link: the driver writes into its logs until it is destroyed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>

#include "server/state/objects/jit_options.h"

namespace farcall::server {

struct LinkState {
  CUlinkState native = nullptr;
  JitOptions jit;
  std::span<const std::byte> output;  // the driver's, after cuLinkComplete
};

}  // namespace farcall::server
