// SPDX-License-Identifier: Apache-2.0
// What a piece of work will cost, from what its like has cost: by kernel and geometry, or by graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "quota/compute_quota.h"

namespace farcall::quota {

struct Estimate {
  Ns mean_ns = kMillisecond;  // of the unknown: guessed, and run alone so that it is known soon
  Ns p95_ns = kMillisecond;
  bool is_known = false;
};

// How often a batch held work of one kind.
struct BatchPart {
  uint64_t key = 0;
  uint32_t count = 0;
};

class CostModel {
 public:
  explicit CostModel(size_t most_keys = 4096) : most_keys_(most_keys) {}

  Estimate Predict(uint64_t key) const;
  // One piece of work took `ns`.
  void Learn(uint64_t key, Ns ns);
  // A batch took `ns` in all. What the estimate missed is laid on its parts by how much they
  // weighed in it, so that batches of different make-up tell them apart.
  void LearnBatch(std::span<const BatchPart> parts, Ns ns);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    double mean_ns = 0;
    double p95_ns = 0;
    uint64_t used = 0;  // when last learnt
  };
  void Take(uint64_t key, double ns);
  void DropOldest();

  const size_t most_keys_;  // a tenant chooses its keys; our memory is ours
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t learnt_ = 0;
};

}  // namespace farcall::quota
