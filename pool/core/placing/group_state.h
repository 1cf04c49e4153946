// SPDX-License-Identifier: Apache-2.0
// A resource group, and what its claims come to.
#pragma once

#include <cstddef>
#include <memory>

#include "pool/core/model/group.h"
#include "pool/core/placing/fragments.h"
#include "pool/core/placing/sequencer.h"

namespace farcall::pool {

struct GroupState {
  Group group;
  std::unique_ptr<const Sequencer> sequencer;  // nullptr: the pool's
  size_t pending = 0, held = 0;                // claims that wait, and that have GPUs
  Demand demand;                               // of all claims that are known
};

}  // namespace farcall::pool
