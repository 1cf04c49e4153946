// SPDX-License-Identifier: Apache-2.0
// The device time of a vGPU of several processes: that in which any of them had work there. What
// they say they used lies before they said so; what overlaps counts once.
#pragma once

#include <cstddef>
#include <map>

#include "quota/compute_quota.h"

namespace farcall::quota {

class UseUnion {
 public:
  // Older ones are not looked at any more. As long as a kernel may run that is told of at its end.
  static constexpr Ns kKept = 60 * kSecond;
  static constexpr size_t kMaxKept = 4096;  // of more, the oldest go

  // `used_ns` ended `now`, which runs back by less than kKept, if at all. What is not looked at any
  // more counts again.
  //   Returns  what of it is new
  Ns Add(Ns used_ns, Ns now);
  size_t kept() const { return pieces_.size(); }

 private:
  std::map<Ns, Ns> pieces_;  // by begin: end; apart from one another
};

}  // namespace farcall::quota
