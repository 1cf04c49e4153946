// SPDX-License-Identifier: Apache-2.0
// What other limiters do, modelled from descriptions of their algorithms: facts and constants, no
// code. Each gates launches in the program's process and learns of the device by sampling.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/sharing/policy.h"

namespace farcall::sharing {

namespace {

using quota::kMillisecond;
using quota::kSecond;

constexpr size_t kLaunchQueue = 1024;  // the driver's: launches ahead of the device
constexpr Ns kPoll = 10 * kMillisecond;

// Launches go straight to the device until its queue is full.
class Launcher : public Policy {
 public:
  explicit Launcher(Bench bench) : bench_(bench), polls_(bench.tenants.size(), false) {}

  void OnWork(size_t tenant) override {
    Program& program = *bench_.tenants[tenant].program;
    while (const Piece* head = program.Head()) {
      if (bench_.device.queued(tenant) >= Depth(tenant))
        return;  // the next completion comes back here
      if (!MayLaunch(tenant, *head)) return PollLater(tenant);
      Piece piece = *head;
      auto done = program.Pop();
      bench_.device.Submit(tenant, piece.duration_ns, [this, tenant, done] {
        done();
        OnWork(tenant);
      });
    }
  }

 protected:
  virtual bool MayLaunch(size_t, const Piece&) { return true; }
  virtual size_t Depth(size_t) const { return kLaunchQueue; }
  virtual bool Polls() const { return true; }

  void PollLater(size_t tenant) {
    if (!Polls() || polls_[tenant]) return;
    polls_[tenant] = true;
    bench_.time.In(kPoll, [this, tenant] {
      polls_[tenant] = false;
      OnWork(tenant);
    });
  }

  Bench bench_;

 private:
  std::vector<bool> polls_;
};

// Utilization as the driver's monitor has it: of the last whole sample period.
class Sampler {
 public:
  Sampler(Bench bench, Ns period) : bench_(bench), period_(period), seen_(bench.tenants.size()) {
    percent_.resize(bench.tenants.size());
    bench_.time.In(period_, [this] { Sample(); });
  }
  double percent(size_t tenant) const { return percent_[tenant]; }

 private:
  void Sample() {
    for (size_t i = 0; i < seen_.size(); ++i) {
      Ns busy = bench_.device.busy_ns(i);
      percent_[i] = 100.0 * static_cast<double>(busy - seen_[i]) / static_cast<double>(period_);
      seen_[i] = busy;
    }
    bench_.time.In(period_, [this] { Sample(); });
  }

  Bench bench_;
  const Ns period_;
  std::vector<Ns> seen_;
  std::vector<double> percent_;
};

class BlockTokens final : public Launcher {
 public:
  BlockTokens(Bench bench, Ns sample_ns)
      : Launcher(bench), sampler_(bench, sample_ns), states_(bench.tenants.size()) {}
  void Start() override {
    bench_.time.In(kTick, [this] { Control(); });
  }

 private:
  static constexpr Ns kTick = 120 * kMillisecond;
  static constexpr double kSms = 108, kThreads = 2048;  // an A100's
  struct State {
    double capacity = kSms * kThreads * 32;
    double tokens = 0, share = 0;
  };

  bool MayLaunch(size_t tenant, const Piece& piece) override {
    if (bench_.tenants[tenant].quota.limit_milli >= kWholeMilli) return true;
    if (states_[tenant].tokens < 0) return false;
    states_[tenant].tokens -= piece.blocks;
    return true;
  }

  void Control() {
    for (size_t i = 0; i < states_.size(); ++i) {
      State& state = states_[i];
      double limit = bench_.tenants[i].quota.limit_milli / 10.0;
      double used = sampler_.percent(i);
      double apart = std::max(5.0, std::abs(limit - used));
      double step = kSms * kSms * kThreads * apart / 2560;
      if (apart > limit / 2) step *= 2 * apart / (limit + 1);
      if (used <= limit)
        state.share = std::min(state.share + step, state.capacity);
      else
        state.share = std::max(state.share - step, 0.0);
      if (state.share >= state.capacity && state.tokens < 0) state.capacity *= 2;
      state.tokens = std::min(state.tokens + state.share, state.capacity);
    }
    bench_.time.In(kTick, [this] { Control(); });
  }

  Sampler sampler_;
  std::vector<State> states_;
};

class SampledPid final : public Launcher {
 public:
  SampledPid(Bench bench, Ns sample_ns)
      : Launcher(bench), sampler_(bench, sample_ns), states_(bench.tenants.size()) {}
  void Start() override {
    bench_.time.In(kTick, [this] { Control(); });
  }

 private:
  static constexpr Ns kTick = 100 * kMillisecond;
  static constexpr double kTickSeconds = 0.1;
  struct State {
    double rate = 100, tokens = 100, capacity = 200;
    double used = 0;  // smoothed, 0 to 1
    double drained = 0, drain_rate = 0;
    double integral = 0, last_error = 0;
  };

  bool MayLaunch(size_t tenant, const Piece& piece) override {
    if (bench_.tenants[tenant].quota.limit_milli >= kWholeMilli) return true;
    double threads = static_cast<double>(piece.blocks) * piece.threads;
    double cost = 0.1 + 9.9 * (1 - std::exp(-threads / 400000));
    State& state = states_[tenant];
    if (state.tokens < cost) return false;
    state.tokens -= cost;
    state.drained += cost;
    return true;
  }

  void Control() {
    for (size_t i = 0; i < states_.size(); ++i) {
      State& state = states_[i];
      double target = bench_.tenants[i].quota.limit_milli / 1000.0;
      state.used += 0.3 * (sampler_.percent(i) / 100 - state.used);
      state.drain_rate += 0.3 * (state.drained / kTickSeconds - state.drain_rate);
      state.drained = 0;
      double error = target - state.used;
      state.integral = 0.95 * state.integral + error * kTickSeconds;
      double slope = (error - state.last_error) / kTickSeconds;
      state.last_error = error;
      double correction = std::clamp(0.5 * error + 0.1 * state.integral + 0.05 * slope, -0.5, 0.5);
      double base = state.drain_rate * target / std::max(state.used, 0.01);
      state.rate = std::clamp(base * (1 + correction), 10.0, 100000.0);
      state.capacity = std::clamp(state.rate * 2, 100.0, 200000.0);
      state.tokens = std::min(state.tokens + state.rate * kTickSeconds, state.capacity);
    }
    bench_.time.In(kTick, [this] { Control(); });
  }

  Sampler sampler_;
  std::vector<State> states_;
};

class Lock final : public Launcher {
 public:
  Lock(Bench bench, Ns quantum_ns)
      : Launcher(bench), quantum_ns_(quantum_ns), waits_(bench.tenants.size(), false) {}
  void Start() override {
    bench_.time.In(kCheck, [this] { Check(); });
  }

 private:
  static constexpr Ns kCheck = 5 * kSecond;  // an idle holder is noticed at this pace
  static constexpr size_t kMaxPending = 64;

  bool MayLaunch(size_t tenant, const Piece&) override {
    if (holder_ == tenant && !draining_) {
      launched_ = true;
      return true;
    }
    if (!waits_[tenant]) {
      waits_[tenant] = true;
      line_.push_back(tenant);
    }
    if (holder_ == kNobody) {
      Give();
      return holder_ == tenant;
    }
    return false;
  }
  size_t Depth(size_t) const override { return kMaxPending; }

  void Give() {
    holder_ = kNobody;
    draining_ = false;
    if (line_.empty()) return;
    holder_ = line_.front();
    line_.erase(line_.begin());
    waits_[holder_] = false;
    launched_ = true;
    bench_.time.In(0, [this, tenant = holder_] { OnWork(tenant); });
    bench_.time.In(quantum_ns_, [this, turn = ++turns_] {
      if (turn == turns_) EndTurn(turn);
    });
  }

  // Nobody waits: the holder goes on, and is asked again.
  void EndTurn(uint64_t turn) {
    if (turn != turns_ || holder_ == kNobody) return;
    draining_ = !line_.empty();
    if (draining_ && bench_.device.queued(holder_) == 0) return Give();
    bench_.time.In(kMillisecond, [this, turn] { EndTurn(turn); });
  }

  void Check() {
    if (holder_ != kNobody && !std::exchange(launched_, false) &&
        bench_.device.queued(holder_) == 0) {
      ++turns_;
      Give();
    }
    bench_.time.In(kCheck, [this] { Check(); });
  }

  static constexpr size_t kNobody = SIZE_MAX;
  const Ns quantum_ns_;
  std::vector<bool> waits_;
  std::vector<size_t> line_;
  size_t holder_ = kNobody;
  bool draining_ = false, launched_ = false;
  uint64_t turns_ = 0;
};

}  // namespace

std::unique_ptr<Policy> MakeFree(Bench bench) {
  return std::make_unique<Launcher>(bench);
}
std::unique_ptr<Policy> MakeBlockTokens(Bench bench, Ns sample_ns) {
  return std::make_unique<BlockTokens>(bench, sample_ns);
}
std::unique_ptr<Policy> MakeLock(Bench bench, Ns quantum_ns) {
  return std::make_unique<Lock>(bench, quantum_ns);
}
std::unique_ptr<Policy> MakeSampledPid(Bench bench, Ns sample_ns) {
  return std::make_unique<SampledPid>(bench, sample_ns);
}

std::unique_ptr<Policy> MakePolicy(const std::string& name, Bench bench) {
  if (name == "farcall") return MakeLeases(bench);
  if (name == "block_tokens") return MakeBlockTokens(bench, kSecond / 6);
  if (name == "block_tokens_1s") return MakeBlockTokens(bench, kSecond);
  if (name == "lock_30s") return MakeLock(bench, 30 * kSecond);
  if (name == "sampled_pid") return MakeSampledPid(bench, kSecond / 6);
  return name == "free" ? MakeFree(bench) : nullptr;
}

}  // namespace farcall::sharing
