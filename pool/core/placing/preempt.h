// SPDX-License-Identifier: Apache-2.0
// Which claims have to leave before another fits: the fewest, or none. For a claim they are of one
// host; for a gang they are of as many as it goes to.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/core/model/types.h"
#include "pool/core/placing/gang_placer.h"

namespace farcall::pool {

struct Eviction {
  GangPlaces places;                 // where the claim, or its gang, fits then
  std::vector<std::string> victims;  // by name; never empty. Of a gang one, for all of it
};

// Claims that could leave, by host.
using Leavers = std::map<std::string, std::vector<const Claim*>>;
// Which of them may. Asked only of hosts that could take the claim.
using MayLeave = std::function<bool(const Claim&)>;

// Those claims may be chosen; of a gang all leave, and count. Of evictions with as few claims, that
// with the lowest queue priorities, then with the fewest sessions, then with the youngest claims.
// The whole need, or nothing.
//   Before  the claim fits nowhere as it is
std::optional<Eviction> FindEviction(const Hosts& hosts, const Leavers& leavers,
                                     const MayLeave& may_leave, const Claim& claim);

}  // namespace farcall::pool
