// SPDX-License-Identifier: Apache-2.0
// Which claims have to leave before another fits: the fewest, of one host, or none.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/core/placer.h"
#include "pool/core/types.h"

namespace farcall::pool {

struct Eviction {
  Place place;                       // where the claim fits then
  std::vector<std::string> victims;  // by name; never empty
};

// Claims for which `may_leave` is true may be chosen. Of evictions with as few claims, that with
// the lowest queue priorities, then with the fewest sessions, then with the youngest claims. The
// whole need, or nothing.
//   Before  the claim fits nowhere as it is
std::optional<Eviction> FindEviction(const Hosts& hosts, const std::map<std::string, Claim>& claims,
                                     const Claim& claim,
                                     const std::function<bool(const Claim&)>& may_leave);

}  // namespace farcall::pool
