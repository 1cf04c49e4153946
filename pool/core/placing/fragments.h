// SPDX-License-Identifier: Apache-2.0
// Fragmentation, as published (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): of what is
// free on a host, the part that a claim of a typical size could not use, in the mean over those
// sizes. A claim goes where it raises this least. Of two resources a GPU's free part is the mean of
// its memory's and of its time's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "pool/core/model/types.h"
#include "pool/core/placing/candidate.h"

namespace farcall::pool {

// What claims ask for, and how often.
class Demand {
 public:
  struct Typical {
    Size size;
    double part = 0;  // of all claims
  };
  // One claim more of what the ask, and not one of its alternatives, names first.
  void Add(const Ask& ask);
  void Remove(const Ask& ask);
  bool is_empty() const { return counts_.empty(); }
  // The most frequent sizes first, at most 32.   Thread  one, also of several readers
  const std::vector<Typical>& typical() const;
  bool operator==(const Demand& other) const { return counts_ == other.counts_; }

 private:
  using Key = std::tuple<uint32_t, uint64_t, uint32_t, std::string, uint32_t>;
  static Key KeyOf(const Ask& ask);
  std::map<Key, uint64_t> counts_;
  mutable std::vector<Typical> typical_;
  mutable bool is_old_ = false;
};

// GPUs' worth of what is free on the host and of no use to the typical claim.
double FragmentsOf(const Host& host, const Demand& demand);

// Puts those of the host's candidates first that the claim would rather have, as many as it asks
// for; of equal ones the first. By how much this raises FragmentsOf.
//   Before  there are as many
double ChooseByFragments(const Host& host, const Ask& ask, const Demand& demand,
                         std::vector<Candidate>* candidates);

}  // namespace farcall::pool
