// SPDX-License-Identifier: Apache-2.0
#include "quota/network/token_bucket.h"

#include <algorithm>

namespace farcall::quota {

namespace {

constexpr Ns kMaxBurst = 30 * kMillisecond;
constexpr Ns kBurstTime = 100 * kMillisecond;

}  // namespace

Ns TokenBucket::DefaultBurst(uint32_t rate_milli) {
  return std::min(kMaxBurst, kBurstTime * rate_milli / kWholeMilli);
}

TokenBucket::TokenBucket(uint32_t rate_milli, Ns burst_ns, Ns now)
    : rate_milli_(rate_milli),
      burst_ns_(burst_ns),
      milli_tokens_(burst_ns * kWholeMilli),
      refilled_at_(now) {}

void TokenBucket::Refill(Ns now) {
  Ns elapsed = now - refilled_at_;
  if (elapsed <= 0) return;  // a clock that stands still refills nothing
  refilled_at_ = now;
  int64_t missing = burst_ns_ * kWholeMilli - milli_tokens_;
  if (rate_milli_ != 0 && elapsed > missing / rate_milli_)  // also: no overflow below
    milli_tokens_ += missing;
  else
    milli_tokens_ += elapsed * rate_milli_;
}

void TokenBucket::Charge(Ns ns, Ns now) {
  Refill(now);
  milli_tokens_ = std::min<int64_t>(milli_tokens_ - ns * kWholeMilli, burst_ns_ * kWholeMilli);
}

Ns TokenBucket::Tokens(Ns now) {
  Refill(now);
  Ns whole = milli_tokens_ / kWholeMilli;
  return milli_tokens_ < 0 && milli_tokens_ % kWholeMilli != 0 ? whole - 1 : whole;
}

Ns TokenBucket::Until(Ns wanted_ns, Ns now) {
  Refill(now);
  int64_t missing = std::min(wanted_ns, burst_ns_) * kWholeMilli - milli_tokens_;
  if (missing <= 0) return 0;
  return rate_milli_ == 0 ? 3600 * kSecond : (missing + rate_milli_ - 1) / rate_milli_;
}

void TokenBucket::SetRate(uint32_t rate_milli, Ns now) {
  Refill(now);
  rate_milli_ = rate_milli;
  burst_ns_ = DefaultBurst(rate_milli);
  milli_tokens_ = std::min<int64_t>(milli_tokens_, burst_ns_ * kWholeMilli);
}

}  // namespace farcall::quota
