// SPDX-License-Identifier: Apache-2.0
// Start-time fair queuing: who of those with work goes next.
#pragma once

#include <cstdint>
#include <map>

#include "quota/compute_quota.h"

namespace farcall::quota {

// A turn's start tag is the queue's virtual time or the flow's last finish tag, whichever is later;
// its finish tag is that plus its cost over its weight, known when the turn is over. The least
// start tag goes next. So who was idle is owed nothing, and who ran is not punished for having been
// alone.
//   Bound  two flows with work all the time: |busy_i / w_i - busy_j / w_j| <= l_i / w_i + l_j /
//   w_j,
//          l = the longest turn, kernel overhang included
class FairQueue {
 public:
  using Flow = uint64_t;

  void Add(Flow flow, double weight);
  void Remove(Flow flow);
  void SetWeight(Flow flow, double weight);
  // The flow has work from now on (kept if it had).
  void Arrive(Flow flow);
  // It has none.
  void Leave(Flow flow);

  // The least start tag among those with work that `may_run` admits; false: none.
  template <typename MayRun>
  bool Least(MayRun may_run, Flow* next) const {
    const Entry* best = nullptr;
    for (const auto& [flow, entry] : flows_) {
      if (entry.has_work && (best == nullptr || entry.start < best->start) && may_run(flow)) {
        best = &entry;
        *next = flow;
      }
    }
    return best != nullptr;
  }
  // Its turn begins; the queue's time is its start tag.
  void Begin(Flow flow);
  // It used `cost_ns`, in a turn or after one (then on account of the next).
  void Charge(Flow flow, Ns cost_ns);
  bool has_work(Flow flow) const { return flows_.at(flow).has_work; }
  double weight(Flow flow) const { return flows_.at(flow).weight; }

 private:
  struct Entry {
    double weight = 1;
    double start = 0;  // of the turn it waits for or has
    bool has_work = false;
  };
  std::map<Flow, Entry> flows_;
  double now_ = 0;  // virtual time, nanoseconds over weight
};

}  // namespace farcall::quota
