// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "pool/core/model/types.h"

namespace farcall::cli {

inline CLI::Range CheckQueuePriority() {
  return {-pool::kMaxQueuePriority, pool::kMaxQueuePriority};
}

}  // namespace farcall::cli
