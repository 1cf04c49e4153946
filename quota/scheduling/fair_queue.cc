// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/fair_queue.h"

#include <algorithm>

namespace farcall::quota {

void FairQueue::Add(Flow flow, double weight) {
  flows_[flow] = {weight, now_, false};
}

void FairQueue::Remove(Flow flow) {
  flows_.erase(flow);
}

void FairQueue::SetWeight(Flow flow, double weight) {
  flows_.at(flow).weight = weight;
}

void FairQueue::Arrive(Flow flow) {
  Entry& entry = flows_.at(flow);
  if (!entry.has_work) {
    entry.has_work = true;
    entry.start = std::max(entry.start, now_);
  }
}

void FairQueue::Leave(Flow flow) {
  flows_.at(flow).has_work = false;
}

void FairQueue::Begin(Flow flow) {
  now_ = std::max(now_, flows_.at(flow).start);
}

void FairQueue::Charge(Flow flow, Ns cost_ns) {
  Entry& entry = flows_.at(flow);
  entry.start += static_cast<double>(cost_ns) / entry.weight;
}

}  // namespace farcall::quota
