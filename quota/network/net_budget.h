// SPDX-License-Identifier: Apache-2.0
// A vGPU's budget of bytes on the network, both directions together. They are lent to its sessions
// in pieces of about 10 ms, before they cross, so nothing is ever repaid.
#pragma once

#include <cstdint>

#include "quota/compute_quota.h"

namespace farcall::quota {

// Time comes in with every call and never runs back.
//   Bound  lent in any time T: at most rate * T + burst
class NetBudget {
 public:
  NetBudget(uint64_t bytes_per_s, Ns now) : filled_at_(now) { SetRate(bytes_per_s, now); }

  // The next piece; 0: not yet, ask again after Until().
  uint64_t Lend(Ns now);
  Ns Until(Ns now);
  // What was saved up stays, as far as the new burst has room for it.
  void SetRate(uint64_t bytes_per_s, Ns now);

  uint64_t bytes_per_s() const { return bytes_per_s_; }
  uint64_t piece_bytes() const { return piece_bytes_; }
  uint64_t burst_bytes() const { return burst_bytes_; }

 private:
  __extension__ using Wide = __int128;  // bytes times nanoseconds
  void Fill(Ns now);

  uint64_t bytes_per_s_ = 0, piece_bytes_ = 0, burst_bytes_ = 0;
  Wide saved_ = 0;  // byte-nanoseconds: a refill loses nothing by rounding
  Ns filled_at_;
};

}  // namespace farcall::quota
