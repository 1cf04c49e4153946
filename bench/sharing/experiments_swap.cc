// SPDX-License-Identifier: Apache-2.0
// Two jobs that together need 1.8 x the device's memory, against one after the other.
#include <cstdio>

#include "bench/sharing/experiments.h"
#include "bench/sharing/swap_trial.h"

namespace farcall::sharing {

std::vector<Figure> MeasureSwap(double scale) {
  using quota::kSecond;
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  constexpr int kSeconds = 1200;  // of each job, alone
  std::vector<Figure> figures;
  // Seconds on the device, then on the host.
  for (auto [device, host] : {std::pair(30, 30), std::pair(10, 10), std::pair(5, 5),
                              std::pair(54, 6), std::pair(27, 3), std::pair(9, 1)}) {
    for (double rate : {50.0, 20.0}) {
      SwapTrial trial;
      trial.device_bytes = 80 * kGiB;
      trial.host_bytes = 256 * kGiB;
      trial.bytes_per_ns = rate;
      SwapJob job;
      job.bytes = 72 * kGiB;
      job.device_ns = device * kSecond;
      job.host_ns = host * kSecond;
      job.turns = static_cast<int>(kSeconds * scale / (device + host));
      job.turns = job.turns < 1 ? 1 : job.turns;
      trial.jobs = {job, job};
      SwapResult result = Run(trial);
      char name[64];
      std::snprintf(name, sizeof(name), "%d s device, %d s host, %.0f GB/s", device, host, rate);
      auto add = [&](const char* what, double value, const char* unit) {
        figures.push_back({"swap", name, "farcall", what, value, unit});
      };
      auto whole = static_cast<double>(result.ended_at);
      add("against one after the other",
          result.finished ? whole / static_cast<double>(result.serial_ns) : -1, "x");
      add("moves", static_cast<double>(result.moves), "");
      add("time spent moving", 100 * static_cast<double>(result.moving_ns) / whole, "%");
    }
  }
  return figures;
}

}  // namespace farcall::sharing
