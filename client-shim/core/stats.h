// SPDX-License-Identifier: Apache-2.0
// FARCALL_STATS: what each API call cost, written as JSON at exit. Off, a call pays one test.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "transport/link.h"

namespace farcall::client {

struct CallCounters {
  std::atomic<uint64_t> calls{0}, posted{0}, waited{0}, local_left{0}, wait_ns{0};
};

struct Stats {
  static constexpr size_t kMaxCalls = 8192;
  CallCounters by_call[kMaxCalls];  // by call id; the last row takes what has no id
  std::atomic<uint64_t> round_trips{0}, posted{0}, wait_ns{0};
  uint64_t start_ns = 0;

  CallCounters& Of(uint16_t call) { return by_call[call < kMaxCalls ? call : kMaxCalls - 1]; }
};

extern std::atomic<Stats*> g_stats;  // nullptr = off

void StartStats();
// What happens between cuProfilerStart and cuProfilerStop is counted apart as well.
void OpenStatsRange();
void CloseStatsRange();
uint64_t NowNs();
// Written beside the file and renamed, so a reader never sees half.
void WriteStats(const std::string& path, const Link::Counters& wire);

}  // namespace farcall::client
