// SPDX-License-Identifier: Apache-2.0
// Looking into maps that are ordered by address.
#pragma once

#include <cstdint>
#include <iterator>

namespace farcall::server {

// The entry that begins at or before `address`; end() if there is none.
template <typename Map>
auto AtOrBefore(Map& map, uint64_t address) {
  auto at = map.upper_bound(address);
  return at == map.begin() ? map.end() : std::prev(at);
}

// The first entry that ends behind `address`, of entries that have an `end` and do not overlap.
template <typename Map>
auto EndingBehind(Map& map, uint64_t address) {
  auto next = map.upper_bound(address);
  return next != map.begin() && std::prev(next)->second.end > address ? std::prev(next) : next;
}

}  // namespace farcall::server
