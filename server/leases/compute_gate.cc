// SPDX-License-Identifier: Apache-2.0
#include "server/leases/compute_gate.h"

#include <algorithm>
#include <utility>

namespace farcall::server {

namespace {

using quota::kMillisecond;
using quota::Ns;
using quota::WorkWindow;

// What runs may wait for what is held: a kernel that spins until another writes. So a batch more
// goes after this time without any progress.
constexpr Ns kPatience = 100 * kMillisecond;
// A lease nobody else wants goes back after this much idling, a batch nobody waits for is closed.
constexpr Ns kIdleAlone = 10 * kMillisecond;
// What runs on is told of so often.
constexpr Ns kTellRunning = 100 * kMillisecond;

static_assert(static_cast<int>(quota::Company::kWaiting) ==
                  static_cast<int>(control::Company::kWaiting) &&
              static_cast<int>(quota::Company::kIdle) ==
                  static_cast<int>(control::Company::kIdle) &&
              static_cast<int>(quota::Company::kNone) == static_cast<int>(control::Company::kNone));

// No sum of such numbers overflows.
Ns ToNs(uint64_t told) {
  return static_cast<Ns>(std::min<uint64_t>(told, INT64_MAX / 4));
}

}  // namespace

ComputeGate::ComputeGate(int devices, GateHooks hooks)
    : hooks_(std::move(hooks)), devices_(static_cast<size_t>(devices)) {}

bool ComputeGate::Admit(int device, uint64_t key) {
  std::lock_guard lock(mutex_);
  Device& state = devices_[static_cast<size_t>(device)];
  Ns now = hooks_.now();
  state.idle.NoteWork(now);
  state.idle_since = 0;
  WorkWindow::Verdict verdict = state.window.Admit(key);
  if (verdict == WorkWindow::Verdict::kPass) {
    state.holds_back = false;
    return true;
  }
  bool stuck = state.window.has_lease() && !state.window.drained() &&
               now - std::max(state.progress_at, state.submitted_at) > kPatience;
  if (stuck) {
    state.progress_at = now;
    state.holds_back = false;
    return true;
  }
  state.holds_back = true;
  state.held_longest_ns = state.window.costs().Predict(key).p95_ns;
  if (verdict == WorkWindow::Verdict::kWaitsForLease && state.window.has_lease())
    state.window.Limit(0);  // what is left of it is too little for this: it is over
  if (verdict == WorkWindow::Verdict::kWaitsForLease && !state.window.has_lease() &&
      !std::exchange(state.asked, true)) {
    hooks_.tell(control::WantLease{
        .device = device,
        .first_clock_ns = static_cast<uint64_t>(state.pace.ByTheClock(state.held_longest_ns)),
        .pace_milli = state.pace.milli()});
  }
  return false;
}

bool ComputeGate::Submitted(int device, uint64_t key) {
  std::lock_guard lock(mutex_);
  Device& state = devices_[static_cast<size_t>(device)];
  Ns now = hooks_.now();
  if (state.window.drained()) state.busy_since = state.reported_at = now;
  state.submitted_at = now;
  return state.window.Submit(key);
}

void ComputeGate::Serve(const Fence& fence) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    auto device = static_cast<int>(i);
    uint64_t batch = 0;
    {
      std::lock_guard lock(mutex_);
      Device& state = devices_[i];
      Ns now = hooks_.now();
      bool close = state.holds_back || state.contended || state.window.batch_full() ||
                   now - state.submitted_at >= kIdleAlone;
      if (TellsOfRunning(state) && now - state.reported_at >= kTellRunning)
        TellOfRunning(device, state, now);
      if (state.window.batch_open() && close)
        batch = state.window.CloseBatch();
      else
        GiveBackIfDone(device, state, now);
    }
    if (batch != 0) fence(device, [this, device, batch] { Completed(device, batch); });
  }
}

Ns ComputeGate::ServeAt() {
  std::lock_guard lock(mutex_);
  Ns at = kNever;
  for (Device& state : devices_) {
    if (engaged() && TellsOfRunning(state)) at = std::min(at, state.reported_at + kTellRunning);
    if (!state.window.has_lease()) continue;
    if (state.holds_back && !state.window.drained())
      at = std::min(at, std::max(state.progress_at, state.submitted_at) + kPatience + 1);
    if (state.window.batch_open()) {
      at = std::min(at, state.submitted_at + kIdleAlone);
    } else if (state.window.drained() && state.idle_since != 0) {
      Ns hold = state.contended ? state.idle.hold_ns() : kIdleAlone;
      at = std::min(at, state.idle_since + hold);
    }
  }
  return at;
}

// By the device's own count, since it was last asked.
Ns ComputeGate::Used(int device, Device& state) {
  Ns used = hooks_.used(device);
  return std::max<Ns>(used - std::exchange(state.used_ns, used), 0);
}

void ComputeGate::TellOfRunning(int device, Device& state, Ns now) {
  Ns busy = Used(device, state);
  state.reported_at = now;
  state.early_ns += busy;
  busy += std::exchange(state.unreported_ns, 0);
  if (busy != 0)
    hooks_.tell(control::LeaseRuns{.device = device, .used_ns = static_cast<uint64_t>(busy)});
}

// A message wakes the supervisor, which costs more than all that the gate does for a batch.
bool ComputeGate::IsNews(const Device& state, Ns now) {
  return !state.window.is_alone() || state.window.drained() ||
         state.window.left_ns() < quota::kNearlySpent || now - state.reported_at >= kTellRunning;
}

void ComputeGate::TellUse(int device, Device& state, Ns now) {
  state.reported_at = now;
  hooks_.tell(control::LeaseUse{
      .device = device,
      .used_ns = static_cast<uint64_t>(std::exchange(state.unreported_ns, 0)),
      .left_ns = static_cast<uint64_t>(std::max<Ns>(state.window.left_ns(), 0)),
      .outstanding_clock_ns = static_cast<uint64_t>(
          state.pace.ByTheClock(std::max<Ns>(state.window.outstanding_ns(), 0)))});
}

void ComputeGate::Completed(int device, uint64_t batch) {
  bool wakes;
  {
    std::lock_guard lock(mutex_);
    Device& state = devices_[static_cast<size_t>(device)];
    Ns now = hooks_.now();
    Ns clock = std::max<Ns>(now - std::exchange(state.busy_since, now), 0);
    Ns busy = hooks_.used ? Used(device, state) : clock;
    Ns in_all = busy + std::exchange(state.early_ns, 0);
    state.pace.Note(clock, in_all);
    state.progress_at = now;
    state.unreported_ns += busy;
    state.window.Complete(batch, in_all);
    if (IsNews(state, now)) TellUse(device, state, now);
    GiveBackIfDone(device, state, now);
    // For what was held, or for the time at which an idle lease goes back; else it has its own
    // work.
    wakes = state.holds_back || state.window.drained();
  }
  if (wakes) hooks_.wake();
}

void ComputeGate::GiveBackIfDone(int device, Device& state, Ns now) {
  if (!state.window.has_lease() || !state.window.drained()) return;
  if (!state.window.spent() && !state.holds_back) {
    if (state.idle_since == 0) {
      state.idle_since = now;
      state.idle.NoteIdle(now);
    }
    Ns hold = state.contended ? state.idle.hold_ns() : kIdleAlone;
    if (now - state.idle_since < hold) return;
  } else if (!state.window.spent()) {
    return;  // the record that waits fits
  }
  if (state.unreported_ns != 0) TellUse(device, state, now);
  state.window.End();
  state.contended = false;
  state.idle_since = 0;
  state.asked = state.holds_back;
  hooks_.tell(control::LeaseDone{
      .device = device,
      .wants_next = state.holds_back,
      .first_clock_ns = static_cast<uint64_t>(state.pace.ByTheClock(state.held_longest_ns)),
      .pace_milli = state.pace.milli()});
}

void ComputeGate::SetCompany(Device& state, control::Company company) {
  state.contended = company == control::Company::kWaiting;
  state.window.SetCompany(static_cast<quota::Company>(company));
}

ComputeGate::Device* ComputeGate::Find(int32_t device) {
  bool known = device >= 0 && static_cast<size_t>(device) < devices_.size();
  return known ? &devices_[static_cast<size_t>(device)] : nullptr;
}

void ComputeGate::OnMessage(const control::Sharing&) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < devices_.size() && hooks_.used; ++i)
    devices_[i].used_ns = hooks_.used(static_cast<int>(i));
  engaged_.store(true, std::memory_order_release);
}

void ComputeGate::OnMessage(const control::Lease& message) {
  {
    std::lock_guard lock(mutex_);
    Device* state = Find(message.device);
    if (state == nullptr) return;
    state->asked = false;
    SetCompany(*state, message.company);
    state->progress_at = hooks_.now();
    state->window.Grant(ToNs(message.device_ns));
    if (state->window.drained() && !state->holds_back) state->idle_since = hooks_.now();
  }
  hooks_.wake();
}

void ComputeGate::OnMessage(const control::LeaseMore& message) {
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    Device* state = Find(message.device);
    if (state == nullptr) return;
    // One that crossed the lease's return on its way is void.
    if (state->window.has_lease()) state->window.Grant(ToNs(message.device_ns));
    wakes = state->holds_back;
  }
  if (wakes) hooks_.wake();
}

void ComputeGate::OnMessage(const control::LeaseLimit& message) {
  {
    std::lock_guard lock(mutex_);
    Device* state = Find(message.device);
    if (state == nullptr) return;
    if (state->window.has_lease()) {
      SetCompany(*state, message.company);
      if (state->unreported_ns != 0) TellUse(message.device, *state, hooks_.now());
      state->window.Limit(ToNs(message.left_ns));
    }
  }
  hooks_.wake();
}

}  // namespace farcall::server
