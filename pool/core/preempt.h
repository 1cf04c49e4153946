// SPDX-License-Identifier: Apache-2.0
// Which claims have to leave before another fits: the fewest, of one host, or none.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pool/core/placer.h"
#include "pool/core/types.h"

namespace farcall::pool {

struct Eviction {
  Place place;                       // where the claim fits then
  std::vector<std::string> victims;  // by name; never empty
};

using Leavers = std::unordered_map<std::string, std::vector<const Claim*>>;  // by host

// Those claims may be chosen. Of evictions with as few claims, that with
// the lowest queue priorities, then with the fewest sessions, then with the youngest claims. The
// whole need, or nothing.
//   Before  the claim fits nowhere as it is
std::optional<Eviction> FindEviction(const Hosts& hosts, const Leavers& leavers,
                                     const Claim& claim);

}  // namespace farcall::pool
