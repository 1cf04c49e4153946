// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a host are close to each other: of one NVLink group, else of one NUMA node.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/core/model/types.h"
#include "pool/core/placing/candidate.h"

namespace farcall::pool {

// The less, the closer.
enum class Closeness : uint8_t { kNvlinkGroup, kNumaNode, kHost, kRack, kPool };

// Of these GPUs of the host. One alone is as close as can be.
Closeness ClosenessOf(const Host& host, const std::vector<uint32_t>& devices);
// As "one NVLink group".
const char* ToText(Closeness closeness);

// Puts those of the candidates first that are closest to each other, `count` at a time as long as
// there are as many; of equal ones from the group with the fewest candidates, so that larger groups
// stay whole. How close the first of them are.
//   Before  there are `count`, the best first
Closeness ChooseByTopology(const Host& host, uint32_t count, std::vector<Candidate>* candidates);

}  // namespace farcall::pool
