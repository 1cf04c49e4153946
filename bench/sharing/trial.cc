// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/trial.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace farcall::sharing {

namespace {

bool AllFinished(const std::vector<std::unique_ptr<Program>>& programs, const Trial& trial) {
  for (size_t i = 0; i < programs.size(); ++i)
    if (trial.tenants[i].load.iterations != 0 && programs[i]->finished_at() == 0) return false;
  return true;
}

}  // namespace

TrialResult Run(const Trial& trial) {
  EventQueue time;
  SimDevice device(time, trial.tenants.size());
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<Tenant> tenants;
  for (size_t i = 0; i < trial.tenants.size(); ++i) {
    programs.push_back(
        std::make_unique<Program>(time, trial.tenants[i].load, trial.seed * 1000 + i));
    programs.back()->KeepFrom(trial.warm_up_ns);
    tenants.push_back({programs.back().get(), trial.tenants[i].quota});
  }
  Bench bench{time, device, tenants};
  std::unique_ptr<Policy> policy = trial.policy == "farcall" ? MakeLeases(bench, trial.scheduler)
                                                             : MakePolicy(trial.policy, bench);
  policy->Start();
  for (size_t i = 0; i < programs.size(); ++i)
    programs[i]->Start([&policy, i] { policy->OnWork(i); });
  time.RunUntil(trial.warm_up_ns);

  TrialResult result;
  result.tick_ns = trial.tick_ns;
  result.tenants.resize(programs.size());
  std::vector<Ns> seen(programs.size());
  for (size_t i = 0; i < programs.size(); ++i) seen[i] = device.busy_ns(i);
  Ns busy = 0;
  while (time.now() < trial.warm_up_ns + trial.length_ns &&
         !(trial.until_finished && AllFinished(programs, trial))) {
    time.RunUntil(time.now() + trial.tick_ns);
    for (size_t i = 0; i < programs.size(); ++i) {
      Ns now = device.busy_ns(i);
      result.tenants[i].busy_ns.push_back(now - seen[i]);
      busy += now - seen[i];
      seen[i] = now;
    }
  }
  result.ended_at = trial.warm_up_ns;
  for (size_t i = 0; i < programs.size(); ++i) {
    result.tenants[i].iteration_ns = programs[i]->iteration_ns();
    result.tenants[i].iterations = programs[i]->iterations_done();
    result.tenants[i].finished_at = programs[i]->finished_at();
    result.ended_at = std::max(result.ended_at, programs[i]->finished_at());
  }
  if (!trial.until_finished) result.ended_at = time.now();
  result.busy_part =
      static_cast<double>(busy) / static_cast<double>(result.ended_at - trial.warm_up_ns);
  return result;
}

ErrorPoints ShareError(const TrialResult& result, size_t tenant, double wanted, Ns window_ns,
                       bool of_busy) {
  ErrorPoints error;
  auto ticks = static_cast<size_t>(window_ns / result.tick_ns);
  const std::vector<Ns>& own = result.tenants[tenant].busy_ns;
  size_t windows = 0;
  error.least = 100;
  for (size_t at = 0; at + ticks <= own.size(); at += ticks) {
    Ns busy = 0, all = 0;
    for (size_t i = at; i < at + ticks; ++i) {
      busy += own[i];
      for (const TenantResult& each : result.tenants) all += each.busy_ns[i];
    }
    double part = 100.0 * static_cast<double>(busy) /
                  static_cast<double>(of_busy ? std::max<Ns>(all, 1) : window_ns);
    double apart = std::abs(part - 100 * wanted);
    error.mean += apart;
    error.max = std::max(error.max, apart);
    error.least = std::min(error.least, part);
    error.most = std::max(error.most, part);
    ++windows;
  }
  error.mean /= static_cast<double>(std::max<size_t>(windows, 1));
  return error;
}

Jain JainIndex(const TrialResult& result, const std::vector<double>& weights, Ns window_ns) {
  Jain jain;
  auto ticks = static_cast<size_t>(window_ns / result.tick_ns);
  double sum_of_all = 0;
  size_t windows = 0;
  for (size_t at = 0; at + ticks <= result.tenants[0].busy_ns.size(); at += ticks) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const std::vector<Ns>& busy = result.tenants[i].busy_ns;
      auto begin = busy.begin() + static_cast<ptrdiff_t>(at);
      Ns total = std::accumulate(begin, begin + static_cast<ptrdiff_t>(ticks), Ns{0});
      double x = static_cast<double>(total) / weights[i];
      sum += x;
      squares += x * x;
    }
    double index = squares == 0 ? 1 : sum * sum / (static_cast<double>(weights.size()) * squares);
    jain.least = std::min(jain.least, index);
    sum_of_all += index;
    ++windows;
  }
  jain.mean = sum_of_all / static_cast<double>(std::max<size_t>(windows, 1));
  return jain;
}

double Mean(const std::vector<Ns>& values) {
  double sum = 0;
  for (Ns value : values) sum += static_cast<double>(value);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double Percentile(std::vector<Ns> values, double part) {
  if (values.empty()) return 0;
  auto at = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return static_cast<double>(*at);
}

}  // namespace farcall::sharing
