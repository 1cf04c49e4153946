// SPDX-License-Identifier: Apache-2.0
#include "quota/memory/residency.h"

#include <algorithm>

namespace farcall::quota {

namespace {

constexpr Ns kLeastQuantum = kSecond, kMaxQuantum = 60 * kSecond;
constexpr Ns kCalm = 30 * kSecond;  // demand below kCalmPart so long: back to free residency
constexpr double kCalmPart = 0.85;
constexpr Ns kJudged = 60 * kSecond;  // what is looked back on
constexpr uint32_t kTooMuchMilli = 200;
constexpr int kMaxDoublings = 3;
constexpr Ns kResidencies = 10;

}  // namespace

Ns SwitchCost(uint64_t out_bytes, uint64_t in_bytes, uint64_t handles, double bytes_per_ns,
              Ns map_ns) {
  auto bytes = static_cast<double>(std::max(out_bytes, in_bytes));
  return static_cast<Ns>(bytes / bytes_per_ns) + static_cast<Ns>(handles) * map_ns;
}

Ns SwapQuantum(Ns switch_cost, double overhead) {
  double quantum = static_cast<double>(switch_cost) * (1 - overhead) / overhead;
  return std::clamp(static_cast<Ns>(std::min(quantum, 1e18)), kLeastQuantum, kMaxQuantum);
}

Ns LeastResidency(Ns switch_cost) {
  return kResidencies * switch_cost;
}

void ThrashWatch::NoteDemand(uint64_t bytes, Ns now) {
  if (bytes > budget_bytes_) {
    swaps_ = true;
    low_since_ = -1;
  } else if (static_cast<double>(bytes) < kCalmPart * static_cast<double>(budget_bytes_)) {
    low_since_ = low_since_ < 0 ? now : low_since_;
    if (now - low_since_ >= kCalm) {
      swaps_ = false;
      doublings_ = 0;
      takes_more_ = true;
    }
  } else {
    low_since_ = -1;
  }
}

void ThrashWatch::NoteSwap(Ns begin, Ns end) {
  recent_.push_back({begin, end});
}

uint32_t ThrashWatch::SwapMilli(Ns now) const {
  Ns since = now - kJudged, swapped = 0;
  for (const Swap& swap : recent_)
    swapped += std::max<Ns>(std::min(swap.end, now) - std::max(swap.begin, since), 0);
  return static_cast<uint32_t>(std::min<Ns>(swapped * kWholeMilli / kJudged, kWholeMilli));
}

Ns ThrashWatch::Quantum(Ns switch_cost) const {
  return std::min(SwapQuantum(switch_cost, kOverhead) << doublings_, kMaxQuantum);
}

void ThrashWatch::Judge(Ns now) {
  while (!recent_.empty() && recent_.front().end < now - kJudged) recent_.pop_front();
  if (now - judged_at_ < kJudged) return;
  judged_at_ = now;
  if (SwapMilli(now) <= kTooMuchMilli) return;
  if (doublings_ < kMaxDoublings)
    ++doublings_;
  else
    takes_more_ = false;
}

}  // namespace farcall::quota
