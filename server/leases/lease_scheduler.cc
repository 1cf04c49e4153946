// SPDX-License-Identifier: Apache-2.0
#include "server/leases/lease_scheduler.h"

#include <algorithm>
#include <utility>

#include "proto/priority.h"
#include "quota/scheduling/work_window.h"

namespace farcall::server {

namespace {

using quota::DeviceScheduler;
using quota::Ns;

constexpr Ns kJoinersLease = quota::kMillisecond;

// A worker's numbers: no sum of such overflows.
Ns ToNs(uint64_t told) {
  return static_cast<Ns>(std::min<uint64_t>(told, INT64_MAX / 4));
}

quota::Priority PriorityOf(const QuotaRequest& request) {
  switch (static_cast<WirePriority>(request.priority)) {
    case WirePriority::kHigh:
      return quota::Priority::kHigh;
    case WirePriority::kLow:
      return quota::Priority::kLow;
    default:
      return quota::Priority::kNormal;
  }
}

}  // namespace

uint8_t OnTheWire(quota::Priority priority) {
  const WirePriority number = priority == quota::Priority::kHigh  ? WirePriority::kHigh
                              : priority == quota::Priority::kLow ? WirePriority::kLow
                                                                  : WirePriority::kNormal;
  return static_cast<uint8_t>(number);
}

LeaseScheduler::LeaseScheduler(int devices, const quota::ComputePolicy& policy, Send send,
                               const quota::SchedulerOptions& options)
    : policy_(policy), clock_parts_(options.clock_parts), send_(std::move(send)) {
  devices_.reserve(static_cast<size_t>(devices));
  for (int i = 0; i < devices; ++i) devices_.emplace_back(options);
  shares_ = policy.max_limit_milli < kWholeMilli;
}

Result<quota::ComputeQuota> LeaseScheduler::Judge(const QuotaRequest& request, Flow flow,
                                                  const std::vector<int>& devices) const {
  if (request.priority > 2) {
    return Status(Code::kInvalid, "priority: " + std::to_string(request.priority) +
                                      " is none; high, normal and low are");
  }
  uint32_t left = kWholeMilli;
  for (int device : devices)
    left = std::min(left, devices_[static_cast<size_t>(device)].scheduler.ShareLeft(flow));
  return quota::Grant(request.share_milli, request.limit_milli, PriorityOf(request), policy_, left);
}

Status LeaseScheduler::Join(const std::string& vgpu, WorkerId worker, const QuotaRequest& request,
                            const std::vector<int>& devices, Ns now) {
  auto found = vgpus_.find(vgpu);
  if (found == vgpus_.end()) {
    Result<quota::ComputeQuota> quota = Judge(request, 0, devices);
    if (!quota.ok()) return quota.status();
    found = vgpus_.emplace(vgpu, ++last_flow_).first;
    on_[found->second] = devices;
    for (size_t i = 0; i < devices_.size(); ++i) {
      bool is_on = std::find(devices.begin(), devices.end(), static_cast<int>(i)) != devices.end();
      devices_[i].scheduler.Add(found->second, is_on ? *quota : quota::ComputeQuota(), now);
    }
    shares_ = shares_ || *quota != quota::ComputeQuota();
  }
  workers_[worker] = {found->second, now};
  Tick(now);  // who was alone is not any more
  return {};
}

Status LeaseScheduler::Join(const std::string& vgpu, WorkerId worker, const QuotaRequest& request,
                            Ns now) {
  std::vector<int> all;
  for (size_t i = 0; i < devices_.size(); ++i) all.push_back(static_cast<int>(i));
  return Join(vgpu, worker, request, all, now);
}

Status LeaseScheduler::Change(const std::string& vgpu, const QuotaRequest& request, Ns now) {
  auto found = vgpus_.find(vgpu);
  if (found == vgpus_.end()) return {Code::kInvalid, "quota: no vGPU '" + vgpu + "'"};
  Result<quota::ComputeQuota> quota = Judge(request, found->second, on_[found->second]);
  if (!quota.ok()) return quota.status();
  for (int device : on_[found->second])
    devices_[static_cast<size_t>(device)].scheduler.Change(found->second, *quota, now);
  shares_ = shares_ || *quota != quota::ComputeQuota();
  Tick(now);
  return {};
}

void LeaseScheduler::Leave(WorkerId worker, Ns now) {
  auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  Flow flow = found->second.flow;
  workers_.erase(found);
  bool is_last = std::none_of(workers_.begin(), workers_.end(),
                              [flow](const auto& other) { return other.second.flow == flow; });
  for (size_t i = 0; i < devices_.size(); ++i) {
    auto device = static_cast<int>(i);
    Device& state = devices_[i];
    state.want[flow].erase(worker);
    state.late.erase(worker);
    state.reported.erase(worker);
    if (state.hold[flow].count(worker) != 0)
      GiveBack(device, flow, worker, {}, now);
    else if (state.want[flow].empty() && state.scheduler.holder() != flow)
      state.scheduler.Leave(flow, now);
    if (is_last) {
      state.scheduler.Remove(flow, now);
      state.want.erase(flow);
      state.hold.erase(flow);
      state.patience.erase(flow);
      state.used.erase(flow);
    }
    Give(device, now);
  }
  if (is_last) {
    std::erase_if(vgpus_, [flow](const auto& vgpu) { return vgpu.second == flow; });
    on_.erase(flow);
  }
}

std::optional<LeaseScheduler::Speaker> LeaseScheduler::Find(WorkerId worker, int32_t device) {
  auto found = workers_.find(worker);
  bool known =
      found != workers_.end() && device >= 0 && static_cast<size_t>(device) < devices_.size();
  if (!known) return std::nullopt;
  Device& state = devices_[static_cast<size_t>(device)];
  const Flow flow = found->second.flow;
  return Speaker{flow, state, state.hold[flow].count(worker) != 0};
}

void LeaseScheduler::OnMessage(WorkerId worker, const control::WantLease& message, Ns now) {
  std::optional<Speaker> from = Find(worker, message.device);
  if (!from) return;
  auto& [flow, state, holds] = *from;
  if (!holds) {
    state.want[flow].insert(worker);
    if (state.scheduler.holder() == flow) {
      state.want[flow].erase(worker);
      state.hold[flow].insert(worker);
      send_(worker, control::Lease{.device = message.device,
                                   .device_ns = static_cast<uint64_t>(kJoinersLease)});
    } else {
      state.scheduler.Want(flow, now, ToNs(message.first_clock_ns), message.pace_milli);
    }
  }
  Give(message.device, now);
}

void LeaseScheduler::OnMessage(WorkerId worker, const control::LeaseUse& message, Ns now) {
  std::optional<Speaker> from = Find(worker, message.device);
  if (!from) return;
  auto& [flow, state, holds] = *from;
  const Ns used = ToNs(message.used_ns);
  ChargeUse(state, worker, used, now);
  state.progress_at = holds && used != 0 ? now : state.progress_at;
  bool alone = state.want[flow].empty() && state.scheduler.holder() == flow;
  if (alone && holds && message.left_ns < static_cast<uint64_t>(quota::kNearlySpent)) {
    if (Ns more = state.scheduler.Extend(now, ToNs(message.outstanding_clock_ns))) {
      send_(worker,
            control::LeaseMore{.device = message.device, .device_ns = static_cast<uint64_t>(more)});
    }
  }
  Give(message.device, now);
}

// Nothing was done: that is no progress.
void LeaseScheduler::OnMessage(WorkerId worker, const control::LeaseRuns& message, Ns now) {
  if (std::optional<Speaker> from = Find(worker, message.device)) {
    ChargeUse(from->state, worker, ToNs(message.used_ns), now);
    Give(message.device, now);
  }
}

void LeaseScheduler::OnMessage(WorkerId worker, const control::LeaseDone& message, Ns now) {
  std::optional<Speaker> from = Find(worker, message.device);
  if (!from) return;
  auto& [flow, state, holds] = *from;
  if (holds) {
    GiveBack(message.device, flow, worker, message, now);
  } else if (state.late.erase(worker) != 0 && message.wants_next) {
    state.want[flow].insert(worker);
    state.scheduler.Want(flow, now, ToNs(message.first_clock_ns), message.pace_milli);
  }
  Give(message.device, now);
}

void LeaseScheduler::ChargeUse(Device& state, WorkerId worker, Ns told, Ns now) {
  const Worker& its = workers_.at(worker);
  Reported& before = state.reported[worker];
  Ns used = std::clamp<Ns>(now - its.since + kClockSlack - before.in_all, 0, told);
  before.in_all += used;
  if (used == 0) return state.scheduler.Charge(its.flow, 0, now);
  // It ended before it was told of. What meets the worker's own last piece is from before that
  // one, whose message came late: else each such delay would count as work at the same time.
  const Ns early = std::clamp<Ns>(before.until - (now - used), 0, used);
  if (early == 0) before.from = now - used;
  auto add = [&](quota::UseUnion& use) {
    return use.Add(used - early, now) + use.Add(early, before.from);
  };
  const Ns busy = add(state.used_by_any);
  state.busy_ns += busy;
  state.history.Add(busy, now);
  if (HasSeveral(its.flow)) used = add(state.used[its.flow]);
  before.from -= early;
  before.until = now;
  state.scheduler.Charge(its.flow, used, now);
  if (state.scheduler.holder() == its.flow) state.charged += used;
}

bool LeaseScheduler::HasSeveral(Flow flow) const {
  return std::count_if(workers_.begin(), workers_.end(),
                       [flow](const auto& worker) { return worker.second.flow == flow; }) > 1;
}

// Workers of one vGPU are company to one another: each says at once what it used, so that what they
// used together can be told.
quota::Company LeaseScheduler::CompanyOfHolder(const Device& state) const {
  const quota::Company company = state.scheduler.CompanyOfHolder();
  const auto holder = state.scheduler.holder();
  return holder && HasSeveral(*holder) ? std::min(company, quota::Company::kIdle) : company;
}

Ns LeaseScheduler::PatienceWith(const Device& state, Flow flow) {
  auto found = state.patience.find(flow);
  return found == state.patience.end() ? kRunaway : found->second;
}

// From when on others could run in the holder's place, the clock counts against it.
void LeaseScheduler::NoteContention(int device, Ns now) {
  Device& state = devices_[static_cast<size_t>(device)];
  bool contended = state.scheduler.holder() && state.notified_limit != DeviceScheduler::kNever;
  if (contended && state.contended_at == DeviceScheduler::kNever) {
    state.contended_at = now;
    state.charged = 0;
  }
}

void LeaseScheduler::SettleByClock(Device& state, Ns now) {
  auto holder = state.scheduler.holder();
  if (!holder || state.contended_at == DeviceScheduler::kNever) return;
  Ns least = (now - std::exchange(state.contended_at, DeviceScheduler::kNever)) / clock_parts_;
  state.scheduler.Charge(*holder, least - state.charged, now);  // negative: none
}

void LeaseScheduler::GiveBack(int device, Flow flow, WorkerId worker,
                              const control::LeaseDone& done, Ns now) {
  Device& state = devices_[static_cast<size_t>(device)];
  state.hold[flow].erase(worker);
  if (done.wants_next) state.want[flow].insert(worker);
  if (state.hold[flow].empty() && state.scheduler.holder() == flow) {
    SettleByClock(state, now);
    if (auto patience = state.patience.find(flow); patience != state.patience.end())
      patience->second = std::min(2 * patience->second, kRunaway);
    state.scheduler.Release(now, !state.want[flow].empty(), ToNs(done.first_clock_ns),
                            done.pace_milli);
  }
}

void LeaseScheduler::Give(int device, Ns now) {
  Device& state = devices_[static_cast<size_t>(device)];
  while (auto lease = state.scheduler.Next(now)) {
    std::set<WorkerId> workers = std::exchange(state.want[lease->flow], {});
    if (workers.empty()) {
      state.scheduler.Release(now, false);
      continue;
    }
    state.notified_limit = DeviceScheduler::kNever;
    state.notified_company = CompanyOfHolder(state);
    state.progress_at = now;
    state.contended_at = DeviceScheduler::kNever;
    Ns each = std::max<Ns>(lease->budget_ns / static_cast<Ns>(workers.size()), 1);
    for (WorkerId worker : workers) {
      send_(worker,
            control::Lease{.device = device,
                           .device_ns = static_cast<uint64_t>(each),
                           .company = static_cast<control::Company>(state.notified_company)});
    }
    state.hold[lease->flow] = std::move(workers);
  }
  TellHolder(device, now);
  NoteContention(device, now);
}

// When others come, or come to have work; when it is to end for them; when it is to go at once.
void LeaseScheduler::TellHolder(int device, Ns now) {
  Device& state = devices_[static_cast<size_t>(device)];
  if (!state.scheduler.holder()) return;
  const quota::Company company = CompanyOfHolder(state);
  Ns limit = state.scheduler.LimitOfHolder(now);
  bool is_news =
      company < state.notified_company ||
      (limit != DeviceScheduler::kNever && (state.notified_limit == DeviceScheduler::kNever ||
                                            (limit == 0 && state.notified_limit != 0)));
  if (!is_news) return;
  state.notified_company = std::min(state.notified_company, company);
  state.notified_limit = limit;
  for (WorkerId worker : state.hold[*state.scheduler.holder()]) {
    send_(worker,
          control::LeaseLimit{.device = device,
                              .left_ns = static_cast<uint64_t>(limit),
                              .company = static_cast<control::Company>(state.notified_company)});
  }
}

bool LeaseScheduler::OthersWant(const Device& state, Flow holder) {
  return std::any_of(state.want.begin(), state.want.end(), [holder](const auto& want) {
    return want.first != holder && !want.second.empty();
  });
}

// What runs cannot be stopped, but the driver gives others their turns beside it. The holder gets
// no lease before it has given this one back, and pays then for what it has run.
void LeaseScheduler::LetOthersIn(int device, Ns now) {
  Device& state = devices_[static_cast<size_t>(device)];
  auto holder = state.scheduler.holder();
  if (!holder || now < LateAt(state)) return;
  SettleByClock(state, now);
  state.patience[*holder] = std::max(PatienceWith(state, *holder) / 2, kLeastPatience);
  for (WorkerId worker : std::exchange(state.hold[*holder], {})) {
    state.late.insert(worker);
    send_(worker, control::LeaseLimit{.device = device});
  }
  state.scheduler.Release(now, !state.want[*holder].empty());
}

// When the holder's turn ends whatever it says; kNever: nobody else wants one.
Ns LeaseScheduler::LateAt(const Device& state) const {
  auto holder = state.scheduler.holder();
  if (!holder || !OthersWant(state, *holder)) return DeviceScheduler::kNever;
  Ns patience = PatienceWith(state, *holder);
  Ns at = state.progress_at + patience;
  return state.contended_at == DeviceScheduler::kNever
             ? at
             : std::min(at, state.contended_at + 2 * patience);
}

void LeaseScheduler::Tick(Ns now) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    LetOthersIn(static_cast<int>(i), now);
    Give(static_cast<int>(i), now);
  }
}

Ns LeaseScheduler::WakeAt(Ns now) {
  Ns at = DeviceScheduler::kNever;
  for (Device& device : devices_) {
    at = std::min(at, device.scheduler.WakeAt(now));
    if (Ns late = LateAt(device); late != DeviceScheduler::kNever)
      at = std::min(at, std::max(late, now));
  }
  return at;
}

LeaseScheduler::DeviceUse LeaseScheduler::UseOf(int device, Ns now) const {
  const Device& state = devices_[static_cast<size_t>(device)];
  return {state.busy_ns, std::min(state.history.Milli(now), kWholeMilli)};
}

std::vector<quota::VgpuStatus> LeaseScheduler::Statuses(Ns now) const {
  std::vector<quota::VgpuStatus> all;
  for (const auto& [vgpu, flow] : vgpus_) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      quota::VgpuStatus status = devices_[i].scheduler.Status(flow, now);
      status.vgpu = vgpu;
      status.device = static_cast<int>(i);
      all.push_back(std::move(status));
    }
  }
  return all;
}

}  // namespace farcall::server
