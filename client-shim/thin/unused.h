// SPDX-License-Identifier: Apache-2.0
// Contents that the client knows by key are kept for whoever makes another alike, up to a number.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace farcall::thin {

inline constexpr size_t kMaxContents = 1u << 15;

// Those that nothing refers to go when there are too many. `gone` takes them, to end outside the
// map's lock.
template <typename Map>
void DropUnused(Map* by_key, std::vector<typename Map::mapped_type>* gone) {
  if (by_key->size() < kMaxContents) return;
  for (auto it = by_key->begin(); it != by_key->end();) {
    if (it->second.use_count() == 1) {
      gone->push_back(std::move(it->second));
      it = by_key->erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace farcall::thin
