// SPDX-License-Identifier: Apache-2.0
// Leases: who is next, for how much, and when the holder's turn is over.
#include "quota/scheduling/device_scheduler.h"

#include <algorithm>
#include <utility>

namespace farcall::quota {

namespace {

// Of the longest that a piece is expected to take (its 95th percentile), what has to fit a pause
// that is itself judged short: to want all of it twice over leaves the end of each pause to nobody.
constexpr double kFits = 0.8;
constexpr Ns kLeastBudget = 100 * kMicrosecond;
constexpr Ns kAlone = 5;        // leases in one, where nobody else waits
constexpr Ns kLongestHold = 2;  // leases: a holder that mostly idles goes after so much wall time
constexpr uint32_t kLeastWeightMilli = 1;  // of a vGPU without a share where all is promised

}  // namespace

void DeviceScheduler::Add(Flow flow, const ComputeQuota& quota, Ns now) {
  FlowState& state = flows_[flow];
  state.quota = quota;
  if (quota.limit_milli < kWholeMilli) state.cap.emplace(quota.limit_milli, now);
  state.floor = TokenBucket(0, 0, now);
  QueueOf(state).Add(flow, 1);
  Reweigh(now);
}

void DeviceScheduler::Remove(Flow flow, Ns now) {
  auto found = flows_.find(flow);
  if (found == flows_.end()) return;
  if (holder_ == flow) Release(now, false);
  Leave(flow, now);
  QueueOf(found->second).Remove(flow);
  flows_.erase(found);
  Reweigh(now);
}

void DeviceScheduler::Change(Flow flow, const ComputeQuota& quota, Ns now) {
  FlowState& state = flows_.at(flow);
  if (quota.priority != state.quota.priority) {
    QueueOf(state).Remove(flow);
    state.quota.priority = quota.priority;
    QueueOf(state).Add(flow, 1);
    if (state.wants) QueueOf(state).Arrive(flow);
  }
  state.quota = quota;
  if (quota.limit_milli == kWholeMilli)
    state.cap.reset();
  else if (state.cap)
    state.cap->SetRate(quota.limit_milli, now);
  else
    state.cap.emplace(quota.limit_milli, now);
  Reweigh(now);
}

uint32_t DeviceScheduler::ShareLeft(Flow but) const {
  uint32_t promised = 0;
  for (const auto& [flow, state] : flows_) promised += flow == but ? 0 : state.quota.share_milli;
  return kWholeMilli - std::min(promised, kWholeMilli);
}

// Those without a share divide what is not promised.
void DeviceScheduler::Reweigh(Ns now) {
  uint32_t without = 0, below = 0;
  for (const auto& [flow, state] : flows_) {
    bool has_share = state.quota.share_milli != 0;
    without += has_share ? 0 : 1;
    below += !has_share && state.quota.priority != Priority::kHigh ? 1 : 0;
  }
  for (auto& [flow, state] : flows_) {
    double weight = state.quota.share_milli;
    if (state.quota.share_milli == 0)
      weight = std::max<double>(ShareLeft(), kLeastWeightMilli) / without;
    QueueOf(state).SetWeight(flow, weight / kWholeMilli);
    uint32_t floor = state.quota.share_milli;
    if (floor == 0 && state.quota.priority != Priority::kHigh) floor = options_.floor_milli / below;
    state.floor.SetRate(floor, now);
  }
}

void DeviceScheduler::EndWait(FlowState& state, Ns now, WaitReason next) {
  state.waited_ns[static_cast<size_t>(state.reason)] += now - state.waits_since;
  state.waits_since = now;
  state.reason = next;
}

void DeviceScheduler::Want(Flow flow, Ns now, Ns longest_ns, uint32_t pace_milli) {
  FlowState& state = flows_.at(flow);
  state.longest_ns = longest_ns;
  state.pace_milli = std::clamp(pace_milli, Pace::kLeastMilli, Pace::kMaxMilli);
  if (state.wants) return;
  state.wants = true;
  state.waits_since = now;
  state.reason = WaitReason::kNone;
  QueueOf(state).Arrive(flow);
  bool above = std::any_of(flows_.begin(), flows_.end(), [&](const auto& other) {
    return other.second.quota.priority < state.quota.priority;
  });
  if (above) {  // somebody is below: it counts as higher work
    background_.NoteActive(now);
    gaps_.NoteBusy(now);
  }
  if (holder_) NoteBlocked(flows_.at(*holder_), now);
  SetReasons(now);
}

void DeviceScheduler::Leave(Flow flow, Ns now) {
  FlowState& state = flows_.at(flow);
  if (!state.wants || holder_ == flow) return;
  EndWait(state, now, WaitReason::kNone);
  state.wants = false;
  QueueOf(state).Leave(flow);
  bool higher_left = std::any_of(flows_.begin(), flows_.end(), [&](const auto& other) {
    return other.second.wants && other.second.quota.priority >= state.quota.priority;
  });
  if (!higher_left) gaps_.NoteIdle(now);
}

bool DeviceScheduler::UnderCap(FlowState& state, Ns now) {
  if (!state.cap) return true;
  Ns enough = std::min(options_.least_ns, state.cap->burst_ns() / 2);
  if (state.cap->Tokens(now) <= 0)
    state.may_begin = false;
  else if (state.cap->Tokens(now) >= enough)
    state.may_begin = true;
  return state.may_begin;
}

bool DeviceScheduler::HigherIsAbout(const FlowState& state, Ns now) const {
  if (!background_.beside_higher(now)) return false;
  return std::any_of(flows_.begin(), flows_.end(), [&](const auto& other) {
    // One that waits for its own cap is not coming back at once.
    bool is_capped = other.second.wants && other.second.cap && !other.second.may_begin;
    return other.second.quota.priority > state.quota.priority && !is_capped;
  });
}

bool DeviceScheduler::FitsPause(const FlowState& state, Ns now) const {
  return state.longest_ns <= options_.long_piece_ns || !HigherIsAbout(state, now) ||
         static_cast<double>(gaps_.LeftOfGap(now)) >= kFits * static_cast<double>(state.longest_ns);
}

bool DeviceScheduler::HasFloorDue(FlowState& state, Ns now) {
  return state.floor.rate_milli() != 0 && state.floor.Tokens(now) > 0;
}

std::optional<DeviceScheduler::Flow> DeviceScheduler::Best(Ns now, Priority* priority) {
  std::optional<Flow> best;
  int holder_level = holder_ ? static_cast<int>(flows_.at(*holder_).quota.priority) : 0;
  for (int level = kPriorities - 1; level >= 0; --level) {
    auto may_run = [&](Flow flow) {
      FlowState& state = flows_.at(flow);
      if (holder_ == flow || !UnderCap(state, now)) return false;
      return HasFloorDue(state, now) || (!best && level >= holder_level && FitsPause(state, now));
    };
    Flow flow = 0;
    // Of lower classes, who has its floor to claim goes before a higher one.
    if (queues_[level].Least(may_run, &flow)) {
      best = flow;
      *priority = static_cast<Priority>(level);
    }
  }
  return best;
}

Ns DeviceScheduler::BudgetOf(FlowState& state, Ns now, Ns outstanding_ns) {
  // What nobody waits for may be long: it is cut short when somebody comes.
  Ns budget = OthersWant() ? options_.lease_ns : kAlone * options_.lease_ns;
  if (HigherIsAbout(state, now)) {
    Ns pause = std::max(gaps_.LeftOfGap(now), BackgroundWindow::kLeast) - outstanding_ns;
    budget = std::min({budget, background_.window_ns(), pause * 1000 / state.pace_milli});
  }
  if (state.cap) budget = std::min(budget, state.cap->Tokens(now));
  return std::max(budget, kLeastBudget);
}

std::optional<DeviceScheduler::Lease> DeviceScheduler::Next(Ns now) {
  if (holder_) return {};
  Priority priority;
  std::optional<Flow> flow = Best(now, &priority);
  if (!flow) {
    SetReasons(now);
    return {};
  }
  FlowState& state = flows_.at(*flow);
  NoteBlocked(state, now);
  holder_ = flow;
  granted_at_ = now;
  claims_floor_ = HasFloorDue(state, now);
  held_ns_ = 0;
  QueueOf(state).Begin(*flow);
  SetReasons(now);
  return Lease{*flow, BudgetOf(state, now)};
}

// What higher work waits for lower work is what the background window answers to.
void DeviceScheduler::NoteBlocked(const FlowState& holder, Ns now) {
  for (auto& [flow, state] : flows_) {
    if (state.wants && holder.quota.priority < state.quota.priority && UnderCap(state, now)) {
      state.blocked_since = std::min(state.blocked_since, now);
    } else if (state.blocked_since != kNever) {
      background_.NoteWait(now - state.blocked_since);
      state.blocked_since = kNever;
    }
  }
}

void DeviceScheduler::Charge(Flow flow, Ns busy_ns, Ns now) {
  auto found = flows_.find(flow);
  if (found == flows_.end()) return;
  FlowState& state = found->second;
  busy_ns = std::max<Ns>(busy_ns, 0);
  state.gpu_time_ns += busy_ns;
  state.history.Add(busy_ns, now);
  state.floor.Charge(busy_ns, now);
  if (state.cap) state.cap->Charge(busy_ns, now);
  QueueOf(state).Charge(flow, busy_ns);
  if (holder_ == flow) held_ns_ += busy_ns;
  if (!HigherIsAbout(state, now) && background_.beside_higher(now)) {
    background_.NoteActive(now);
    background_.NoteRun(busy_ns / 1000 * state.pace_milli, now);
  }
}

Ns DeviceScheduler::Extend(Ns now, Ns outstanding_ns) {
  if (!holder_) return 0;
  FlowState& state = flows_.at(*holder_);
  if (state.cap && state.cap->Tokens(now) <= 0) {
    state.may_begin = false;
    return 0;
  }
  Priority priority;
  if (Best(now, &priority))
    return 0;  // its turn ends with its lease, so that theirs begin within one
  if (HigherIsAbout(state, now) && outstanding_ns >= BackgroundWindow::kLeast &&
      gaps_.LeftOfGap(now) < outstanding_ns + kLeastBudget)
    return 0;  // what runs fills the pause
  return BudgetOf(state, now, outstanding_ns);
}

Ns DeviceScheduler::LimitOfHolder(Ns now) {
  Priority priority;
  if (!holder_ || !Best(now, &priority)) return kNever;
  const FlowState& state = flows_.at(*holder_);
  NoteBlocked(state, now);
  // A floor is claimed against higher work: told to go for it, it would come back at once.
  if ((priority > state.quota.priority && !claims_floor_) ||
      now - granted_at_ > kLongestHold * options_.lease_ns)
    return 0;
  return std::max<Ns>(options_.lease_ns - held_ns_, 0);
}

Company DeviceScheduler::CompanyOfHolder() const {
  return flows_.size() <= 1 ? Company::kNone : OthersWant() ? Company::kWaiting : Company::kIdle;
}

bool DeviceScheduler::OthersWant() const {
  return std::any_of(flows_.begin(), flows_.end(), [&](const auto& other) {
    return other.second.wants && other.first != holder_;
  });
}

void DeviceScheduler::Release(Ns now, bool wants_more, Ns longest_ns, uint32_t pace_milli) {
  if (!holder_) return;
  Flow flow = *holder_;
  holder_.reset();
  if (wants_more) {
    flows_.at(flow).waits_since = now;
    flows_.at(flow).longest_ns = longest_ns;
    flows_.at(flow).pace_milli = std::clamp(pace_milli, Pace::kLeastMilli, Pace::kMaxMilli);
    SetReasons(now);
  } else {
    Leave(flow, now);
  }
}

void DeviceScheduler::SetReasons(Ns now) {
  const FlowState* holder = holder_ ? &flows_.at(*holder_) : nullptr;
  for (auto& [flow, state] : flows_) {
    if (!state.wants) continue;
    WaitReason reason = WaitReason::kFair;
    if (holder_ == flow)
      reason = WaitReason::kNone;
    else if (!UnderCap(state, now))
      reason = WaitReason::kCap;
    else if ((holder != nullptr && holder->quota.priority > state.quota.priority) ||
             !FitsPause(state, now))
      reason = WaitReason::kPriority;
    if (reason != state.reason) EndWait(state, now, reason);
  }
}

Ns DeviceScheduler::WakeAt(Ns now) {
  Ns at = kNever;
  for (auto& [flow, state] : flows_) {
    if (!state.wants || holder_ == flow) continue;
    if (!UnderCap(state, now)) {
      Ns enough = std::max<Ns>(std::min(options_.least_ns, state.cap->burst_ns() / 2), 1);
      at = std::min(at, now + std::max<Ns>(state.cap->Until(enough, now), 1));
    } else if (!FitsPause(state, now)) {
      at = std::min(at, now + kMillisecond);
    }
  }
  // A holder that mostly idles is told to go; once.
  Ns too_long = granted_at_ + kLongestHold * options_.lease_ns + 1;
  return holder_ && OthersWant() && too_long > now ? std::min(at, too_long) : at;
}

VgpuStatus DeviceScheduler::Status(Flow flow, Ns now) const {
  const FlowState& state = flows_.at(flow);
  VgpuStatus status;
  status.quota = state.quota;
  status.gpu_time_ns = state.gpu_time_ns;
  status.share_got_milli = state.history.Milli(now);
  status.waits_for = state.wants ? state.reason : WaitReason::kNone;
  status.runs = holder_ == flow;
  std::copy(std::begin(state.waited_ns), std::end(state.waited_ns), std::begin(status.waited_ns));
  if (state.wants) status.waited_ns[static_cast<size_t>(state.reason)] += now - state.waits_since;
  status.waited_ns[static_cast<size_t>(WaitReason::kNone)] = 0;  // it ran
  if (state.cap) {
    TokenBucket cap = *state.cap;
    status.debt_ns = std::max<Ns>(-cap.Tokens(now), 0);
  }
  double all = 0;
  double own = queues_[static_cast<size_t>(state.quota.priority)].weight(flow);
  for (const auto& [other, its] : flows_)
    if (its.wants || other == flow)
      all += queues_[static_cast<size_t>(its.quota.priority)].weight(other);
  auto fair = static_cast<uint32_t>(own / all * kWholeMilli + 0.5);
  status.share_wanted_milli = std::min(fair, state.quota.limit_milli);
  return status;
}

}  // namespace farcall::quota
