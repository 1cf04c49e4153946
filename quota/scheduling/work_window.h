// SPDX-License-Identifier: Apache-2.0
// One session's work on one device: what may be submitted under its lease, in batches, and what is
// outstanding.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "quota/scheduling/cost_model.h"

namespace farcall::quota {

struct WindowOptions {
  Ns batch_ns = 2 * kMillisecond;   // predicted; then it is closed and watched
  Ns window_ns = 4 * kMillisecond;  // outstanding, predicted: two batches keep a device fed
  uint32_t most_in_batch = 256;
  // Where nobody waits: two pieces that exceed the window together. Where nobody else is there:
  // all.
  Ns alone_ns = 20 * kMillisecond;
  Ns alone_batch_ns = 8 * kMillisecond;
  uint32_t most_in_alone_batch = 1024;
};

// With so little left of a lease more is asked for: a window, so that it comes in time for no
// pause.
constexpr Ns kNearlySpent = 4 * kMillisecond;

// Who else has to do with the device now.
enum class Company { kWaiting, kIdle, kNone };

// Whoever owns it watches each closed batch and says what it took. Never more is outstanding than
// the window, or one batch where a single piece of work exceeds it; alone, two.
class WorkWindow {
 public:
  enum class Verdict { kPass, kWaitsForLease, kWaitsForRoom };
  explicit WorkWindow(WindowOptions options = {}) : options_(options) {}

  // `budget_ns` of device time may be submitted from now on, beside what is outstanding.
  void Grant(Ns budget_ns);
  // At most `left_ns` more; 0: the lease ends once the outstanding is done.
  void Limit(Ns left_ns);
  bool has_lease() const { return has_lease_; }
  // Under a lease, and nothing more fits: it goes back once all is done.
  bool spent() const { return has_lease_ && submitted_ns_ >= budget_ns_; }
  // The lease is given back.   Before: drained()
  void End();
  void SetCompany(Company company) { company_ = company; }
  bool is_alone() const { return company_ == Company::kNone; }

  Verdict Admit(uint64_t key) const;
  // The piece just admitted is on its way. True: close the batch now.
  bool Submit(uint64_t key);
  // Nothing more goes into the open batch.
  //   Returns  its number, for Complete; 0: there is none
  uint64_t CloseBatch();
  // All of batch `number` has run, and took `busy_ns`.
  void Complete(uint64_t number, Ns busy_ns);

  bool batch_full() const {
    Ns most = is_alone() ? options_.alone_batch_ns : options_.batch_ns;
    uint32_t pieces = is_alone() ? options_.most_in_alone_batch : options_.most_in_batch;
    return open_.predicted_ns >= most || open_.unknown || open_.pieces >= pieces;
  }
  bool batch_open() const { return !open_.parts.empty(); }
  bool one_piece_outstanding() const {
    return batch_open() ? outstanding_.empty() && open_.pieces == 1
                        : outstanding_.size() == 1 && outstanding_.front().pieces == 1;
  }
  bool drained() const { return outstanding_.empty() && !batch_open(); }
  Ns outstanding_ns() const { return outstanding_ns_ + open_.predicted_ns; }
  Ns left_ns() const { return budget_ns_ - submitted_ns_; }
  const CostModel& costs() const { return costs_; }

 private:
  struct Batch {
    uint64_t number = 0;
    Ns predicted_ns = 0;
    uint32_t pieces = 0;
    bool unknown = false;  // holds a piece whose cost nobody knows
    std::vector<BatchPart> parts;
  };

  const WindowOptions options_;
  CostModel costs_;
  bool has_lease_ = false;
  Company company_ = Company::kWaiting;
  Ns budget_ns_ = 0;
  Ns submitted_ns_ = 0;    // of the lease: measured where done, predicted where not
  Ns outstanding_ns_ = 0;  // of closed batches
  uint64_t last_number_ = 0;
  Batch open_;
  std::deque<Batch> outstanding_;
};

}  // namespace farcall::quota
