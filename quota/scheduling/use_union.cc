// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/use_union.h"

#include <algorithm>
#include <iterator>

namespace farcall::quota {

Ns UseUnion::Add(Ns used_ns, Ns now) {
  if (used_ns <= 0) return 0;
  while (!pieces_.empty() && (pieces_.begin()->second < now - kKept || pieces_.size() > kMaxKept))
    pieces_.erase(pieces_.begin());
  Ns begin = now - used_ns, end = now, known = 0;
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin() && std::prev(piece)->second >= begin) --piece;
  while (piece != pieces_.end() && piece->first <= end) {
    known += std::min(piece->second, now) - std::max(piece->first, now - used_ns);
    begin = std::min(begin, piece->first);
    end = std::max(end, piece->second);
    piece = pieces_.erase(piece);
  }
  pieces_[begin] = end;
  return used_ns - known;
}

}  // namespace farcall::quota
