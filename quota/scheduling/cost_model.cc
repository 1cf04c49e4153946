// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/cost_model.h"

#include <algorithm>
#include <vector>

namespace farcall::quota {

namespace {

constexpr double kNew = 0.2;  // weight of the newest sample in the mean
// A quantile follows by steps: up by 19 parts where a sample lies above, down by one below.
constexpr double kQuantileStep = 0.05;
constexpr double kQuantile = 0.95;
constexpr double kLeastMean = 1;  // ns: what cost nothing may cost something next time

}  // namespace

Estimate CostModel::Predict(uint64_t key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  return {static_cast<Ns>(found->second.mean_ns), static_cast<Ns>(found->second.p95_ns), true};
}

void CostModel::Take(uint64_t key, double ns) {
  auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  entry.used = ++learnt_;
  if (is_new) {
    entry.mean_ns = entry.p95_ns = ns;
    if (entries_.size() > most_keys_) DropOldest();
    return;
  }
  entry.mean_ns += kNew * (ns - entry.mean_ns);
  double step = kQuantileStep * std::max(entry.p95_ns, entry.mean_ns);
  entry.p95_ns += ns > entry.p95_ns
                      ? std::min(step * kQuantile / (1 - kQuantile), ns - entry.p95_ns)
                      : -std::min(step * (1 - kQuantile), entry.p95_ns - ns);
}

void CostModel::Learn(uint64_t key, Ns ns) {
  Take(key, static_cast<double>(std::max<Ns>(ns, 0)));
}

void CostModel::LearnBatch(std::span<const BatchPart> parts, Ns ns) {
  std::vector<double> means;  // all from the same state: taking one changes what others predict
  means.reserve(parts.size());
  double missed = static_cast<double>(std::max<Ns>(ns, 0)), weight = 0;
  for (const BatchPart& part : parts) {
    double mean = std::max(static_cast<double>(Predict(part.key).mean_ns), kLeastMean);
    means.push_back(mean);
    missed -= mean * part.count;
    weight += mean * mean * part.count * part.count;
  }
  for (size_t i = 0; i < parts.size() && weight > 0; ++i) {
    double mean = means[i];
    Take(parts[i].key, std::max(mean + missed * mean * mean * parts[i].count / weight, 0.0));
  }
}

// Half of them at once: seldom, and no list to keep in order.
void CostModel::DropOldest() {
  std::vector<uint64_t> ages;
  ages.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) ages.push_back(entry.used);
  auto middle = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  std::erase_if(entries_, [limit = *middle](const auto& item) { return item.second.used < limit; });
}

}  // namespace farcall::quota
