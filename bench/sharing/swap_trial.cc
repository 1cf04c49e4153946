// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/swap_trial.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "server/leases/swap_scheduler.h"

namespace farcall::sharing {

namespace {

using quota::kMillisecond;
using quota::kSecond;
using quota::Ns;
using server::SwapMessage;
using server::SwapScheduler;
using server::control::SwapOutcome;

namespace control = server::control;

constexpr Ns kStep = kMillisecond;
constexpr Ns kIdleReported = 10 * kMillisecond;  // as server/memory/memory_swap.cc waits
constexpr Ns kLongest = 24 * 3600 * kSecond;     // of a trial

class SwapSimulation {
 public:
  explicit SwapSimulation(const SwapTrial& trial)
      : trial_(trial),
        scheduler_(OptionsOf(trial),
                   {[this](int worker, int) { return workers_[static_cast<size_t>(worker)].held; },
                    [this](int) {
                      uint64_t total = 0;
                      for (const Worker& worker : workers_) total += worker.held;
                      return total;
                    },
                    [&trial](int, int) { return trial.device_bytes; }},
                   {[this](int worker, const SwapMessage& message) {
                      Begin(workers_[static_cast<size_t>(worker)], message);
                    },
                    [](int, const std::string&) {}, [](int, bool, uint64_t, Ns) {}}) {
    for (const SwapJob& job : trial.jobs) {
      Worker worker;
      worker.job = job;
      scheduler_.Join(static_cast<int>(workers_.size()), std::to_string(workers_.size()),
                      quota::Priority::kNormal, now_);
      workers_.push_back(worker);
    }
  }

  SwapResult Run() {
    SwapResult result;
    for (const SwapJob& job : trial_.jobs)
      result.serial_ns += (job.device_ns + job.host_ns) * job.turns;
    size_t running = workers_.size();
    for (; running != 0 && now_ < kLongest; now_ += kStep) {
      running = 0;
      on_device_ = 0;
      for (const Worker& worker : workers_) on_device_ += Works(worker) ? 1 : 0;
      for (size_t i = 0; i < workers_.size(); ++i) {
        Step(static_cast<int>(i), workers_[i]);
        running += workers_[i].turns < workers_[i].job.turns ? 1 : 0;
      }
      scheduler_.Tick(now_);
    }
    result.finished = running == 0;
    result.ended_at = now_ - kSecond;
    result.moves = scheduler_.totals_out().count + scheduler_.totals_in().count;
    result.moving_ns = scheduler_.totals_out().ns + scheduler_.totals_in().ns;
    return result;
  }

 private:
  struct Worker {
    SwapJob job;
    uint64_t held = 0, out = 0;
    int turns = 0;
    bool on_host = false;
    Ns done_ns = 0;   // of the phase
    Ns quiet_ns = 0;  // without work on the device
    bool told_idle = false, asked = false;
    enum class Moves { kNo, kOut, kIn } moves = Moves::kNo;
    Ns moves_until = 0;
    uint64_t moved = 0;
  };
  using Moves = Worker::Moves;

  static server::SwapOptions OptionsOf(const SwapTrial& trial) {
    server::SwapOptions options;
    options.budget_bytes = {trial.device_bytes};
    options.lent_bytes = {trial.device_bytes * trial.jobs.size()};
    options.host_bytes = trial.host_bytes;
    return options;
  }

  void Begin(Worker& worker, const SwapMessage& message) {
    const bool leaves = std::holds_alternative<control::SwapOut>(message);
    worker.moves = leaves ? Moves::kOut : Moves::kIn;
    worker.moved = leaves ? worker.held : worker.out;
    worker.moves_until =
        now_ + static_cast<Ns>(static_cast<double>(worker.moved) / trial_.bytes_per_ns);
  }

  void End(int id, Worker& worker) {
    bool left = std::exchange(worker.moves, Moves::kNo) == Moves::kOut;
    worker.out = left ? worker.held : 0;
    worker.asked = worker.asked && left;
    auto took = static_cast<uint64_t>(static_cast<double>(worker.moved) / trial_.bytes_per_ns);
    scheduler_.OnMessage(id, control::Moved{.out_bytes = worker.out}, now_);
    scheduler_.OnMessage(id,
                         control::SwapDone{.outcome = left ? SwapOutcome::kOut : SwapOutcome::kIn,
                                           .took_ns = took,
                                           .moved_bytes = worker.moved},
                         now_);
  }

  bool IsIn(const Worker& worker) const {
    return worker.moves == Moves::kNo && worker.out == 0 && worker.held == worker.job.bytes;
  }
  bool Works(const Worker& worker) const {
    return !worker.on_host && IsIn(worker) && worker.turns < worker.job.turns;
  }

  // Those that are on the device at once divide it.
  void Step(int id, Worker& worker) {
    if (worker.moves != Moves::kNo && now_ >= worker.moves_until) End(id, worker);
    if (worker.turns == worker.job.turns) return;
    if (worker.held == 0) {
      std::string why;
      bool there =
          scheduler_.Ask(id, 0, worker.job.bytes, now_, &why) == SwapScheduler::Room::kThere;
      worker.held = there ? worker.job.bytes : 0;
      return;
    }
    if (worker.on_host) {
      worker.done_ns += kStep;
      worker.quiet_ns += kStep;
      if (!worker.told_idle && worker.quiet_ns >= kIdleReported && IsIn(worker)) {
        worker.told_idle = true;
        scheduler_.OnMessage(id, control::Idle{.is_idle = true}, now_);
      }
      return NextPhase(id, worker, worker.job.host_ns);
    }
    if (IsIn(worker)) {
      if (std::exchange(worker.told_idle, false))
        scheduler_.OnMessage(id, control::Idle{.is_idle = false}, now_);
      worker.quiet_ns = 0;
      worker.done_ns += kStep / std::max(on_device_, 1);
      NextPhase(id, worker, worker.job.device_ns);
    } else if (worker.moves == Moves::kNo && !std::exchange(worker.asked, true)) {
      scheduler_.OnMessage(id, control::WantIn{}, now_);
    }
  }

  void NextPhase(int id, Worker& worker, Ns length) {
    if (worker.done_ns < length) return;
    worker.done_ns = 0;
    worker.turns += worker.on_host ? 1 : 0;
    worker.on_host = !worker.on_host;
    if (worker.turns == worker.job.turns) {
      worker.held = worker.out = 0;
      scheduler_.Leave(id);
    }
  }

  const SwapTrial trial_;
  std::vector<Worker> workers_;
  Ns now_ = kSecond;
  int on_device_ = 0;
  SwapScheduler scheduler_;
};

}  // namespace

SwapResult Run(const SwapTrial& trial) {
  return SwapSimulation(trial).Run();
}

}  // namespace farcall::sharing
