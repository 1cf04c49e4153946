// SPDX-License-Identifier: Apache-2.0
// Ours: the server's own scheduler and a gate a tenant. What lies between supervisor, worker and
// device is a delay each way.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/sharing/policy.h"
#include "server/leases/compute_gate.h"
#include "server/leases/lease_scheduler.h"

namespace farcall::sharing {

namespace {

using server::ComputeGate;
using server::GateMessage;
using server::LeaseMessage;

constexpr Ns kTell = 20 * quota::kMicrosecond;  // a message between worker and supervisor
constexpr Ns kSeen = 20 * quota::kMicrosecond;  // from a batch's end to who waits for it
constexpr Ns kNever = ComputeGate::kNever;

// An alarm of which only the earliest time set counts.
class Alarm {
 public:
  Alarm(EventQueue& time, std::function<void()> ring) : time_(time), ring_(std::move(ring)) {}
  void Set(Ns when) {
    if (when == kNever || (at_ != kNever && at_ <= when)) return;
    at_ = std::max(when, time_.now() + 1);
    time_.At(at_, [this, when = at_] {
      if (when == at_) {
        at_ = kNever;
        ring_();
      }
    });
  }

 private:
  EventQueue& time_;
  const std::function<void()> ring_;
  Ns at_ = kNever;
};

class Leases final : public Policy {
 public:
  Leases(Bench bench, const quota::SchedulerOptions& options)
      : bench_(bench),
        scheduler_(
            1, {}, [this](int to, const LeaseMessage& message) { TellGate(to, message); }, options),
        scheduler_alarm_(bench.time, [this] {
          scheduler_.Tick(bench_.time.now());
          SetSchedulerAlarm();
        }) {
    for (size_t i = 0; i < bench.tenants.size(); ++i)
      sessions_.push_back(std::make_unique<Session>(bench_.time, Hooks(i), [this, i] { Pump(i); }));
  }

  void Start() override {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      const quota::ComputeQuota& quota = bench_.tenants[i].quota;
      QuotaRequest request;
      request.share_milli = quota.share_milli;
      request.limit_milli = quota.limit_milli;
      request.priority = server::OnTheWire(quota.priority);
      Status joined = scheduler_.Join(std::to_string(i), static_cast<int>(i), request, 0);
      if (!joined.ok()) {
        std::fprintf(stderr, "sharing: tenant %zu: %s\n", i, joined.message().c_str());
        std::abort();
      }
      sessions_[i]->gate.OnMessage(server::control::Sharing{});
    }
  }

  void OnWork(size_t tenant) override { Pump(tenant); }

 private:
  struct Session {
    Session(EventQueue& time, server::GateHooks hooks, std::function<void()> pump)
        : gate(1, std::move(hooks)), alarm(time, std::move(pump)) {}
    ComputeGate gate;
    Alarm alarm;
    uint64_t submitted = 0, done = 0;
    std::deque<std::pair<uint64_t, std::function<void()>>> fences;  // once so many are done
  };

  server::GateHooks Hooks(size_t tenant) {
    server::GateHooks hooks;
    hooks.tell = [this, tenant](const GateMessage& message) {
      bench_.time.In(kTell, [this, tenant, message] {
        std::visit(
            [&](const auto& each) {
              scheduler_.OnMessage(static_cast<int>(tenant), each, bench_.time.now());
            },
            message);
        SetSchedulerAlarm();
      });
    };
    hooks.wake = [this, tenant] { sessions_[tenant]->alarm.Set(0); };
    hooks.now = [this] { return bench_.time.now(); };
    hooks.used = [this, tenant](int) { return bench_.device.busy_ns(tenant); };
    return hooks;
  }

  void TellGate(int tenant, const LeaseMessage& message) {
    bench_.time.In(kTell, [this, tenant, message] {
      ComputeGate& gate = sessions_[static_cast<size_t>(tenant)]->gate;
      std::visit([&gate](const auto& each) { gate.OnMessage(each); }, message);
    });
  }

  void SetSchedulerAlarm() { scheduler_alarm_.Set(scheduler_.WakeAt(bench_.time.now())); }

  // What a session's issue thread does when there is work, or it was woken.
  void Pump(size_t tenant) {
    Session& session = *sessions_[tenant];
    Program& program = *bench_.tenants[tenant].program;
    while (const Piece* head = program.Head()) {
      uint64_t key = head->key;
      if (!session.gate.Admit(0, key)) break;
      Launch(tenant, *head);
      if (session.gate.Submitted(0, key)) Serve(tenant);
    }
    Serve(tenant);
    session.alarm.Set(session.gate.ServeAt());
  }

  void Launch(size_t tenant, Piece piece) {
    Session& session = *sessions_[tenant];
    ++session.submitted;
    auto done = bench_.tenants[tenant].program->Pop();
    bench_.device.Submit(tenant, piece.duration_ns, [this, tenant, done] {
      ++sessions_[tenant]->done;
      done();
      PassFences(tenant);
    });
  }

  void Serve(size_t tenant) {
    Session& session = *sessions_[tenant];
    session.gate.Serve([&session](int, std::function<void()> done) {
      session.fences.emplace_back(session.submitted, std::move(done));
    });
    PassFences(tenant);
  }

  void PassFences(size_t tenant) {
    Session& session = *sessions_[tenant];
    while (!session.fences.empty() && session.fences.front().first <= session.done) {
      bench_.time.In(kSeen, std::move(session.fences.front().second));
      session.fences.pop_front();
    }
  }

  Bench bench_;
  server::LeaseScheduler scheduler_;
  Alarm scheduler_alarm_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace

std::unique_ptr<Policy> MakeLeases(Bench bench, const quota::SchedulerOptions& options) {
  return std::make_unique<Leases>(bench, options);
}

}  // namespace farcall::sharing
