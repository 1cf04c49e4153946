// SPDX-License-Identifier: Apache-2.0
// A cap on a device's time: tokens are nanoseconds of it.
#pragma once

#include <cstdint>

#include "quota/compute_quota.h"

namespace farcall::quota {

// Refills at `rate` thousandths of a nanosecond a nanosecond, up to `burst`. Use beyond it is debt,
// repaid by waiting and never forgiven, so the long-run mean is the rate exactly.
//   Bound  who begins only with tokens, and has at most W outstanding, uses in any window T at most
//          rate * T + burst + W + the longest kernel
class TokenBucket {
 public:
  // min(30 ms, a tenth of a second at the rate).
  static Ns DefaultBurst(uint32_t rate_milli);

  TokenBucket(uint32_t rate_milli, Ns burst_ns, Ns now);
  TokenBucket(uint32_t rate_milli, Ns now)
      : TokenBucket(rate_milli, DefaultBurst(rate_milli), now) {}

  // Takes `ns` of tokens; negative gives back what was charged too much.
  void Charge(Ns ns, Ns now);
  // Rounded down, so that a debt of a part of a nanosecond is a debt.
  Ns Tokens(Ns now);
  // How long until Tokens() is at least `wanted_ns` (at most the burst); 0: it is.
  Ns Until(Ns wanted_ns, Ns now);
  // The rate changes; what is owed stays owed.
  void SetRate(uint32_t rate_milli, Ns now);
  uint32_t rate_milli() const { return rate_milli_; }
  Ns burst_ns() const { return burst_ns_; }

 private:
  void Refill(Ns now);

  uint32_t rate_milli_;
  Ns burst_ns_;
  int64_t milli_tokens_;  // thousandths of a nanosecond: a refill loses nothing by rounding
  Ns refilled_at_;
};

}  // namespace farcall::quota
