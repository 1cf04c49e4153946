// SPDX-License-Identifier: Apache-2.0
// Ours, on the very classes the server uses. What lies between supervisor, worker and device is a
// delay each way.
#include <memory>
#include <vector>

#include "bench/sharing/policy.h"
#include "quota/device_scheduler.h"
#include "quota/idle_hold.h"
#include "quota/work_window.h"

namespace farcall::sharing {

namespace {

using quota::WorkWindow;

constexpr Ns kTell = 20 * quota::kMicrosecond;  // a message between worker and supervisor
constexpr Ns kSeen = 20 * quota::kMicrosecond;  // from a batch's end to who waits for it

class Leases final : public Policy {
 public:
  Leases(Bench bench, const quota::SchedulerOptions& options)
      : bench_(bench), scheduler_(options), sessions_(bench.tenants.size()) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      scheduler_.Add(i, bench.tenants[i].quota, bench.time.now());
    }
  }

  void OnWork(size_t tenant) override { Pump(tenant); }

 private:
  struct Batch {
    uint64_t number = 0;
    uint32_t left = 0;
  };
  struct Session {
    WorkWindow window;
    quota::IdleHold idle;
    std::shared_ptr<Batch> open;
    Ns seen_busy_ns = 0;
    bool asked = false;
    uint64_t moves = 0;  // what a timer compares
  };

  void Pump(size_t tenant) {
    Session& session = sessions_[tenant];
    Program& program = *bench_.tenants[tenant].program;
    while (const Piece* head = program.Head()) {
      session.idle.NoteWork(bench_.time.now());
      WorkWindow::Verdict verdict = session.window.Admit(head->key);
      if (verdict != WorkWindow::Verdict::kPass) {
        Close(tenant);
        if (verdict == WorkWindow::Verdict::kWaitsForLease) {
          session.window.has_lease() ? GiveBackIfDone(tenant) : Ask(tenant, *head);
        }
        return;
      }
      Launch(tenant, *head);
    }
    Close(tenant);
    GiveBackIfDone(tenant);
  }

  void Launch(size_t tenant, Piece piece) {
    Session& session = sessions_[tenant];
    ++session.moves;
    if (session.open == nullptr) {
      session.open = std::make_shared<Batch>();
    }
    auto batch = session.open;
    ++batch->left;
    auto done = bench_.tenants[tenant].program->Pop();
    bool full = session.window.Submit(piece.key);
    bench_.device.Submit(tenant, piece.duration_ns, [this, tenant, batch, done] {
      --batch->left;
      done();
      CompleteIfDone(tenant, batch);
    });
    if (full) {
      Close(tenant);
    }
  }

  void Close(size_t tenant) {
    Session& session = sessions_[tenant];
    if (session.open == nullptr) {
      return;
    }
    auto batch = std::move(session.open);
    session.open = nullptr;
    batch->number = session.window.CloseBatch();
    CompleteIfDone(tenant, batch);
  }

  void CompleteIfDone(size_t tenant, const std::shared_ptr<Batch>& batch) {
    if (batch->left != 0 || batch->number == 0) {
      return;
    }
    Ns busy = bench_.device.busy_ns(tenant) - sessions_[tenant].seen_busy_ns;
    sessions_[tenant].seen_busy_ns += busy;
    bench_.time.In(kSeen, [this, tenant, number = batch->number, busy] {
      Session& session = sessions_[tenant];
      session.window.Complete(number, busy);
      scheduler_.Charge(tenant, busy, bench_.time.now());
      if (session.window.left_ns() <= 0) {
        ExtendIfAlone(tenant);
      }
      Pump(tenant);
    });
  }

  void ExtendIfAlone(size_t tenant) {
    if (scheduler_.holder() == tenant) {
      if (Ns more = scheduler_.Extend(bench_.time.now())) {
        sessions_[tenant].window.Grant(more);
      }
    }
  }

  void Ask(size_t tenant, const Piece& head) {
    Session& session = sessions_[tenant];
    if (std::exchange(session.asked, true)) {
      return;
    }
    Ns longest = session.window.costs().Predict(head.key).p95_ns;
    bench_.time.In(kTell, [this, tenant, longest] {
      scheduler_.Want(tenant, bench_.time.now(), longest);
      Grant();
      TellHolder();
    });
  }

  void Grant() {
    Ns now = bench_.time.now();
    if (auto lease = scheduler_.Next(now)) {
      size_t tenant = lease->flow;
      bench_.time.In(kTell, [this, tenant, budget = lease->budget_ns] {
        sessions_[tenant].asked = false;
        sessions_[tenant].window.Grant(budget);
        Pump(tenant);
      });
    }
    Ns wake = scheduler_.WakeAt(now);
    if (wake != quota::DeviceScheduler::kNever && (wake < wake_at_ || wake_at_ <= now)) {
      wake_at_ = wake;
      bench_.time.At(wake, [this] {
        Grant();
        TellHolder();
      });
    }
  }

  void TellHolder() {
    Ns limit = scheduler_.LimitOfHolder(bench_.time.now());
    if (limit == quota::DeviceScheduler::kNever) {
      return;
    }
    size_t holder = *scheduler_.holder();
    bench_.time.In(kTell, [this, holder, limit] {
      sessions_[holder].window.Limit(limit);
      Pump(holder);
    });
  }

  // A lease with nothing left to run goes back: at once if it is spent, after a while if not.
  void GiveBackIfDone(size_t tenant) {
    Session& session = sessions_[tenant];
    if (!session.window.has_lease() || !session.window.drained()) {
      return;
    }
    if (bench_.tenants[tenant].program->Head() == nullptr && !session.window.spent()) {
      session.idle.NoteIdle(bench_.time.now());
      bench_.time.In(session.idle.hold_ns(), [this, tenant, moves = session.moves] {
        Session& then = sessions_[tenant];
        if (then.moves == moves && then.window.has_lease() && then.window.drained()) {
          GiveBack(tenant);
        }
      });
      return;
    }
    GiveBack(tenant);
  }

  void GiveBack(size_t tenant) {
    Session& session = sessions_[tenant];
    ++session.moves;
    session.window.End();
    bool more = bench_.tenants[tenant].program->Head() != nullptr;
    session.asked = more;
    bench_.time.In(kTell, [this, tenant, more] {
      scheduler_.Release(bench_.time.now(), more);
      Grant();
      TellHolder();
    });
  }

  Bench bench_;
  quota::DeviceScheduler scheduler_;
  std::vector<Session> sessions_;
  Ns wake_at_ = 0;
};

}  // namespace

std::unique_ptr<Policy> MakeLeases(Bench bench, const quota::SchedulerOptions& options) {
  return std::make_unique<Leases>(bench, options);
}

}  // namespace farcall::sharing
