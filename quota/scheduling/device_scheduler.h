// SPDX-License-Identifier: Apache-2.0
// Who has a device: leases by class, fair share and cap, one vGPU at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proto/status.h"
#include "quota/compute_quota.h"
#include "quota/network/token_bucket.h"
#include "quota/scheduling/background_window.h"
#include "quota/scheduling/fair_queue.h"
#include "quota/scheduling/pace.h"
#include "quota/scheduling/use_history.h"
#include "quota/scheduling/work_window.h"
#include "quota/vgpu_status.h"

namespace farcall::quota {

struct SchedulerOptions {
  Ns lease_ns = 4 * kMillisecond;  // device time of a lease while others wait
  Ns least_ns = kMillisecond;      // a capped vGPU gets no lease for less, it waits for tokens
  uint32_t floor_milli = 50;       // what classes below the highest have left to them, together
  Ns long_piece_ns = BackgroundWindow::kLeast;  // longer ones of a lower class wait for a pause
  // What a holder says it used is checked against the clock: while others could run, it pays for
  // one part in so many of the time at least. No more, for the device idles while a message is on
  // its way, or between two pieces.
  Ns clock_parts = 2;
};

// Time comes in with every call and never runs back. One vGPU (a flow) holds the lease; it gives it
// back once its work is done.
//   Order  a class above all below it, but for the floors (a share, or a part of `floor_milli`);
//          within a class start-time fair queuing by share; nobody beyond its limit
class DeviceScheduler {
 public:
  using Flow = FairQueue::Flow;
  struct Lease {
    Flow flow = 0;
    Ns budget_ns = 0;  // of device time; the last piece of work may exceed it
  };
  static constexpr Ns kNever = INT64_MAX;

  explicit DeviceScheduler(const SchedulerOptions& options = {}) : options_(options) {}

  void Add(Flow flow, const ComputeQuota& quota, Ns now);
  void Remove(Flow flow, Ns now);  // its lease ends with it
  void Change(Flow flow, const ComputeQuota& quota, Ns now);
  // Of the device, what no share has promised; `but` apart.
  uint32_t ShareLeft(Flow but = 0) const;

  // The flow has work; its next piece takes up to `longest_ns` by the clock, 0: not known, and its
  // device time so much longer than itself.
  void Want(Flow flow, Ns now, Ns longest_ns = 0, uint32_t pace_milli = Pace::kLeastMilli);
  // It has none, nor the lease.
  void Leave(Flow flow, Ns now);
  // If the device is free and somebody may have it: who.
  std::optional<Lease> Next(Ns now);
  // Work of the holder took `busy_ns`.
  void Charge(Flow flow, Ns busy_ns, Ns now);
  // What the holder may submit from now on, beside what it has outstanding, which takes so long by
  // the clock; 0: its turn is over.
  Ns Extend(Ns now, Ns outstanding_ns = 0);
  // What the holder may still submit now that others have come; kNever: no matter.
  Ns LimitOfHolder(Ns now);
  // Of the holder: whether others have work, of whatever class, or might have.
  Company CompanyOfHolder() const;
  // All of the holder's work is done. If it wants more: its next piece, as with Want.
  void Release(Ns now, bool wants_more, Ns longest_ns = 0, uint32_t pace_milli = Pace::kLeastMilli);

  std::optional<Flow> holder() const { return holder_; }
  // When Next may give what it does not give now, if nobody calls meanwhile.
  Ns WakeAt(Ns now);
  VgpuStatus Status(Flow flow, Ns now) const;
  const BackgroundWindow& background() const { return background_; }

 private:
  struct FlowState {
    ComputeQuota quota;
    std::optional<TokenBucket> cap;
    TokenBucket floor{0, 0, 0};
    bool wants = false;
    bool may_begin = true;  // its bucket was full enough since it was last empty
    Ns longest_ns = 0;
    uint32_t pace_milli = Pace::kLeastMilli;
    Ns waits_since = 0;
    Ns blocked_since = kNever;  // work of a lower class has the device since then
    WaitReason reason = WaitReason::kNone;
    Ns gpu_time_ns = 0;
    Ns waited_ns[kWaitReasons] = {};
    UseHistory history;
  };

  FairQueue& QueueOf(const FlowState& state) {
    return queues_[static_cast<size_t>(state.quota.priority)];
  }
  void Reweigh(Ns now);
  bool UnderCap(FlowState& state, Ns now);
  bool FitsPause(const FlowState& state, Ns now) const;
  bool OthersWant() const;
  static bool HasFloorDue(FlowState& state, Ns now);
  // Whose turn is next, its class in `priority`. Beside a holder, only who may follow it: of its
  // class, a higher one, or with a floor to claim.
  std::optional<Flow> Best(Ns now, Priority* priority);
  Ns BudgetOf(FlowState& state, Ns now, Ns outstanding_ns = 0);
  bool HigherIsAbout(const FlowState& state, Ns now) const;
  void SetReasons(Ns now);
  void NoteBlocked(const FlowState& holder, Ns now);
  static void EndWait(FlowState& state, Ns now, WaitReason next);

  const SchedulerOptions options_;
  std::map<Flow, FlowState> flows_;
  FairQueue queues_[kPriorities];
  std::optional<Flow> holder_;
  Ns granted_at_ = 0;
  bool claims_floor_ = false;  // it got this lease to make up for its floor
  Ns held_ns_ = 0;             // charged in this lease
  BackgroundWindow background_;
  GapPredictor gaps_;
};

}  // namespace farcall::quota
