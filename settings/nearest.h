// SPDX-License-Identifier: Apache-2.0
// The known name that somebody who mistyped may have meant.
#pragma once

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {

// Insertions, deletions and replacements from `a` to `b`.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + cost}));
    }
  }
  return row.back();
}

// `names` is not empty.
template <typename Names>
std::string_view Nearest(std::string_view name, const Names& names) {
  return *std::min_element(names.begin(), names.end(),
                           [name](std::string_view a, std::string_view b) {
                             return EditDistance(name, a) < EditDistance(name, b);
                           });
}

}  // namespace farcall
