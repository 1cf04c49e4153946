// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/work_window.h"

#include <algorithm>

namespace farcall::quota {

void WorkWindow::Grant(Ns budget_ns) {
  if (!has_lease_) {
    has_lease_ = true;
    submitted_ns_ = 0;
    budget_ns_ = 0;
  }
  budget_ns_ = std::max(budget_ns_, submitted_ns_ + budget_ns);
}

void WorkWindow::Limit(Ns left_ns) {
  budget_ns_ = std::min(budget_ns_, submitted_ns_ + std::max<Ns>(left_ns, 0));
}

void WorkWindow::End() {
  has_lease_ = false;
  budget_ns_ = submitted_ns_ = 0;
}

WorkWindow::Verdict WorkWindow::Admit(uint64_t key) const {
  if (!has_lease_ || submitted_ns_ >= budget_ns_) return Verdict::kWaitsForLease;
  Estimate estimate = costs_.Predict(key);
  Ns cost = estimate.mean_ns;
  // What would not end within the lease waits for the next one, unless it is the first.
  if (submitted_ns_ > 0 && submitted_ns_ + cost > budget_ns_) return Verdict::kWaitsForLease;
  bool may_more = is_alone() || (company_ == Company::kIdle && one_piece_outstanding());
  Ns room = may_more ? options_.alone_ns : options_.window_ns;
  if (!drained() && (!estimate.is_known || outstanding_ns() + cost > room))
    return Verdict::kWaitsForRoom;
  return Verdict::kPass;
}

bool WorkWindow::Submit(uint64_t key) {
  Estimate estimate = costs_.Predict(key);
  auto part = std::find_if(open_.parts.begin(), open_.parts.end(),
                           [key](const BatchPart& known) { return known.key == key; });
  if (part == open_.parts.end())
    open_.parts.push_back({key, 1});
  else
    ++part->count;
  open_.predicted_ns += estimate.mean_ns;
  submitted_ns_ += estimate.mean_ns;
  ++open_.pieces;
  open_.unknown = open_.unknown || !estimate.is_known;
  return batch_full();
}

uint64_t WorkWindow::CloseBatch() {
  if (open_.parts.empty()) return 0;
  open_.number = ++last_number_;
  outstanding_ns_ += open_.predicted_ns;
  outstanding_.push_back(std::move(open_));
  open_ = {};
  return last_number_;
}

void WorkWindow::Complete(uint64_t number, Ns busy_ns) {
  auto batch = std::find_if(outstanding_.begin(), outstanding_.end(),
                            [number](const Batch& known) { return known.number == number; });
  if (batch == outstanding_.end()) return;
  costs_.LearnBatch(batch->parts, busy_ns);
  submitted_ns_ += busy_ns - batch->predicted_ns;
  outstanding_ns_ -= batch->predicted_ns;
  outstanding_.erase(batch);
}

}  // namespace farcall::quota
