// SPDX-License-Identifier: Apache-2.0
// What a run cost in calls, waits and bytes, and what it would have cost over a network: told at
// the end of `farcall run` on a server of its own.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::cli {

struct CallCount {
  uint64_t calls = 0, posted = 0, waited = 0, local = 0, wait_ns = 0;
};

struct DeviceUse {
  int device = 0;
  uint64_t peak_bytes = 0;          // the most one process had in use at once
  uint64_t all_sessions_bytes = 0;  // the sum of every process's most
  uint64_t charged_bytes = 0;       // the most that was charged at once, unspent credit with it
};

struct RunReport {
  std::string device_kind, device_name;
  uint64_t processes = 0;  // that called CUDA
  uint64_t waits = 0, posted = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  uint64_t wall_ns = 0;
  int exit_code = 0;
  std::map<std::string, CallCount> calls;  // by API name
  std::set<std::string> libraries;         // whose kernels were loaded
  std::vector<DeviceUse> memory;
  std::map<std::string, uint64_t> skipped;  // launches that were not executed, by kernel

  uint64_t AllCalls() const;
  uint64_t Launches() const;  // kernels and graphs
  uint64_t Skipped() const;
  bool skips() const { return device_kind == "cpu-skip"; }
};

// What a network adds: every wait takes the round trip once, every byte its time on the wire.
// Exact for one thread that waits; with several, whose waits overlap, the most it can be.
double AddedSeconds(const RunReport& report, double round_trip_ms, double gigabits);

struct Network {
  double round_trip_ms, gigabits;
};
const std::vector<Network>& ReportedNetworks();

// Adds the counters that the processes of a run left in `folder`.
void ReadCounters(const std::string& folder, RunReport* report);
// Adds what the server wrote with --report.   Errors  kInvalid (not such a file)
Status ReadServerReport(const std::string& path, RunReport* report);

std::string ToText(const RunReport& report);
std::string ToJson(const RunReport& report);

}  // namespace farcall::cli
