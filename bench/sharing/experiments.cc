// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/experiments.h"

#include <algorithm>
#include <numeric>

#include "bench/sharing/trial.h"

namespace farcall::sharing {

namespace {

using quota::kMicrosecond;
using quota::kMillisecond;
using quota::kSecond;
using quota::Priority;

Ns Scaled(Ns length, double scale) {
  return static_cast<Ns>(static_cast<double>(length) * scale);
}

TrialTenant Saturating(std::vector<Piece> kinds) {
  TrialTenant tenant;
  tenant.load.kinds = std::move(kinds);
  return tenant;
}

// `busy_ns` of `pieces` kernels, then a pause: a training step, a request.
TrialTenant Steps(Ns busy_ns, uint32_t pieces, Ns pause_ns, uint64_t key) {
  TrialTenant tenant;
  tenant.load.kinds = {{key, busy_ns / pieces, 2048, 256}};
  tenant.load.pieces = pieces;
  tenant.load.pause_ns = pause_ns;
  return tenant;
}

}  // namespace

std::vector<Figure> MeasureShares(double scale) {
  std::vector<Figure> figures;
  const std::vector<std::vector<uint32_t>> cases = {
      {500, 500}, {250, 750}, {100, 900}, {250, 250, 250, 250}};
  for (const std::string policy : {"farcall", "free", "lock_30s"}) {
    for (const std::vector<uint32_t>& shares : cases) {
      Trial trial;
      trial.policy = policy;
      trial.length_ns = Scaled(600 * kSecond, scale);
      std::string name;
      std::vector<double> weights;
      for (size_t i = 0; i < shares.size(); ++i) {
        trial.tenants.push_back(
            Saturating(MixedKernels(20 * kMicrosecond, 8 * kMillisecond, 12, 100 * (i + 1))));
        trial.tenants.back().quota.share_milli = shares[i];
        name += (i == 0 ? "" : ":") + std::to_string(shares[i] / 10);
        weights.push_back(shares[i] / 1000.0);
      }
      TrialResult result = Run(trial);
      auto add = [&](const std::string& what, double value, const std::string& unit) {
        figures.push_back({"shares", name, policy, what, value, unit});
      };
      for (Ns window : {kSecond, 10 * kSecond}) {
        double mean = 0, most = 0;
        for (size_t i = 0; i < shares.size(); ++i) {
          ErrorPoints error = ShareError(result, i, weights[i], window, true);
          mean = std::max(mean, error.mean);
          most = std::max(most, error.max);
        }
        std::string over = " over " + std::to_string(window / kSecond) + " s";
        add("mean error" + over, mean, "points");
        add("largest error" + over, most, "points");
      }
      Jain jain = JainIndex(result, weights, kSecond);
      add("Jain over 1 s, mean", jain.mean, "");
      add("Jain over 1 s, least", jain.least, "");
      add("device busy", 100 * result.busy_part, "%");
    }
  }
  return figures;
}

// What the gate costs somebody with a share whom nobody disturbs.
std::vector<Figure> MeasureAlone(double scale) {
  std::vector<Figure> figures;
  const std::vector<std::pair<std::string, std::vector<Piece>>> kernels = {
      {"kernels of 20 us to 8 ms", MixedKernels(20 * kMicrosecond, 8 * kMillisecond, 12, 1)},
      {"kernels of 20 us", {{1, 20 * kMicrosecond}}},
      {"kernels of 1 ms", {{1, kMillisecond}}},
      {"kernels of 3 ms", {{1, 3 * kMillisecond}}}};
  for (const auto& [name, kinds] : kernels) {
    Trial trial;
    trial.length_ns = Scaled(60 * kSecond, scale);
    trial.tenants = {Saturating(kinds)};
    trial.tenants[0].quota.share_milli = 500;
    double with = Run(trial).busy_part;
    trial.policy = "free";
    figures.push_back(
        {"alone", name, "farcall", "loss", 100 * (1 - with / Run(trial).busy_part), "%"});
  }
  return figures;
}

std::vector<Figure> MeasureCaps(double scale) {
  std::vector<Figure> figures;
  const std::vector<std::pair<std::string, Piece>> kernels = {
      {"50000 blocks, 2 ms", {1, 2 * kMillisecond, 50000, 256}},
      {"4096 blocks, 50 us", {2, 50 * kMicrosecond, 4096, 256}},
      {"864 blocks, 1 ms", {3, kMillisecond, 864, 256}},
      {"108 blocks, 10 ms", {4, 10 * kMillisecond, 108, 256}}};
  for (const std::string policy : {"farcall", "block_tokens", "block_tokens_1s", "sampled_pid"}) {
    for (uint32_t limit : {100u, 300u, 500u, 900u}) {
      for (const auto& [name, kernel] : kernels) {
        Trial trial;
        trial.policy = policy;
        trial.length_ns = Scaled(120 * kSecond, scale);
        trial.tenants = {Saturating({kernel})};
        trial.tenants[0].quota.limit_milli = limit;
        TrialResult result = Run(trial);
        ErrorPoints error = ShareError(result, 0, limit / 1000.0, kSecond, false);
        std::string what = quota::PercentText(limit) + " of " + name;
        figures.push_back({"caps", what, policy, "mean", 100 * result.busy_part, "%"});
        figures.push_back({"caps", what, policy, "least second", error.least, "%"});
        figures.push_back({"caps", what, policy, "most second", error.most, "%"});
        double burst = static_cast<double>(quota::TokenBucket::DefaultBurst(limit));
        double bound =
            limit / 10.0 +
            100 * (burst + 4e6 * 1.25 + 1.1 * static_cast<double>(kernel.duration_ns)) / 1e9;
        figures.push_back({"caps", what, policy, "bound of a second", bound, "%"});
      }
    }
  }
  return figures;
}

std::vector<Figure> MeasurePriority(double scale) {
  std::vector<Figure> figures;
  struct Case {
    std::string name;
    TrialTenant high;
    Ns longest_low;
  };
  const std::vector<Case> cases = {
      {"training: 75 ms of 100, low kernels <= 8 ms",
       Steps(75 * kMillisecond, 75, 25 * kMillisecond, 1), 8 * kMillisecond},
      {"training: 75 ms of 100, low kernels <= 2.5 ms",
       Steps(75 * kMillisecond, 75, 25 * kMillisecond, 1), 2500 * kMicrosecond},
      {"requests: 15 ms every 20, low kernels <= 2.5 ms",
       Steps(15 * kMillisecond, 15, 5 * kMillisecond, 1), 2500 * kMicrosecond},
      {"requests: 15 ms every 20, low kernels <= 1 ms",
       Steps(15 * kMillisecond, 15, 5 * kMillisecond, 1), kMillisecond},
      {"waits for each kernel of 4 ms, pauses 0.2 ms, low kernels <= 1 ms",
       Steps(4 * kMillisecond, 1, 200 * kMicrosecond, 1), kMillisecond},
      {"waits for each kernel of 4 ms, pauses 2 ms, low kernels <= 1 ms",
       Steps(4 * kMillisecond, 1, 2 * kMillisecond, 1), kMillisecond}};
  for (const std::string policy : {"farcall", "free", "lock_30s"}) {
    for (const Case& each : cases) {
      Trial trial;
      trial.policy = policy;
      trial.length_ns = Scaled(300 * kSecond, scale);
      trial.tenants = {each.high};
      trial.tenants[0].quota.priority = Priority::kHigh;
      TrialResult alone = Run(trial);
      trial.tenants.push_back(
          Saturating(MixedKernels(50 * kMicrosecond, each.longest_low, 8, 100)));
      trial.tenants[1].quota.priority = Priority::kLow;
      TrialResult both = Run(trial);
      auto add = [&](const std::string& what, double value) {
        figures.push_back({"priority", each.name, policy, what, value, "%"});
      };
      auto loss = [](double shared, double solo) { return 100 * (shared / solo - 1); };
      const std::vector<Ns>& solo = alone.tenants[0].iteration_ns;
      const std::vector<Ns>& shared = both.tenants[0].iteration_ns;
      add("high, mean loss", loss(Mean(shared), Mean(solo)));
      add("high, p99 loss", loss(Percentile(shared, 0.99), Percentile(solo, 0.99)));
      double low = static_cast<double>(
          std::accumulate(both.tenants[1].busy_ns.begin(), both.tenants[1].busy_ns.end(), Ns{0}));
      add("low, speed of its own alone", 100 * low / static_cast<double>(trial.length_ns));
      add("idle beside high alone", 100 * (1 - alone.busy_part));
    }
  }
  return figures;
}

// Three that compute in bursts (20, 40 and 60 % of the time), three that saturate; each 60 s of
// device time.
std::vector<Figure> MeasureMix(double scale) {
  std::vector<TrialTenant> tasks;
  auto total = static_cast<double>(Scaled(60 * kSecond, scale));
  uint64_t key = 1;
  for (auto [busy_ms, pause_ms] : {std::pair(20, 80), std::pair(40, 60), std::pair(60, 40)}) {
    tasks.push_back(Steps(busy_ms * kMillisecond, static_cast<uint32_t>(busy_ms),
                          pause_ms * kMillisecond, key++));
    tasks.back().load.iterations = static_cast<uint64_t>(total / (busy_ms * 1e6));
  }
  for (Ns kernel : {200 * kMicrosecond, kMillisecond, 4 * kMillisecond}) {
    auto pieces = static_cast<uint32_t>(20 * kMillisecond / kernel);
    tasks.push_back(Steps(20 * kMillisecond, pieces, 0, key++));
    tasks.back().load.iterations = static_cast<uint64_t>(total / 20e6);
  }
  std::vector<Figure> figures;
  Ns serial = 0;
  double work = 0;
  Trial trial;
  trial.until_finished = true;
  trial.warm_up_ns = 0;
  trial.length_ns = 24 * 3600 * kSecond;
  for (const TrialTenant& task : tasks) {
    trial.policy = "free";
    trial.tenants = {task};
    TrialResult result = Run(trial);
    serial += result.ended_at;
    work += result.busy_part * static_cast<double>(result.ended_at);
  }
  auto add = [&](const std::string& policy, const std::string& what, double value,
                 const std::string& unit) {
    figures.push_back({"mix", "six tasks", policy, what, value, unit});
  };
  add("one_after_another", "total time", static_cast<double>(serial) / 1e9, "s");
  add("one_after_another", "device busy", 100 * work / static_cast<double>(serial), "%");
  for (const std::string policy : {"farcall", "free", "lock_30s"}) {
    trial.policy = policy;
    trial.tenants = tasks;
    TrialResult result = Run(trial);
    add(policy, "total time", static_cast<double>(result.ended_at) / 1e9, "s");
    add(policy, "against one after another",
        100 * (static_cast<double>(result.ended_at) / static_cast<double>(serial) - 1), "%");
    add(policy, "device busy", 100 * result.busy_part, "%");
  }
  return figures;
}

}  // namespace farcall::sharing
