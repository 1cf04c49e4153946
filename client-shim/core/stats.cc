// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/stats.h"

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "client-shim/core/log.h"
#include "proto/call_id.h"

namespace farcall::client {

std::atomic<Stats*> g_stats{nullptr};

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

void StartStats() {
  if (g_stats.load() != nullptr) return;
  auto* stats = new Stats;
  stats->start_ns = NowNs();
  g_stats.store(stats);
}

namespace {

void WriteCalls(FILE* file, Stats* stats) {
  bool first = true;
  for (size_t i = 0; i < Stats::kMaxCalls; ++i) {
    CallCounters& row = stats->by_call[i];
    uint64_t calls = row.calls.load();
    if (calls == 0) continue;
    uint64_t left = row.local_left.load();
    std::fprintf(file,
                 "%s\n    \"%s\": {\"calls\": %" PRIu64 ", \"posted\": %" PRIu64
                 ", \"waited\": %" PRIu64 ", \"local\": %" PRIu64 ", \"wait_ns\": %" PRIu64 "}",
                 first ? "" : ",", CallName(static_cast<uint16_t>(i)), calls, row.posted.load(),
                 row.waited.load(), calls > left ? calls - left : 0, row.wait_ns.load());
    first = false;
  }
}

uint64_t LocalCalls(Stats* stats) {
  uint64_t local = 0;
  for (CallCounters& row : stats->by_call) {
    uint64_t calls = row.calls.load(), left = row.local_left.load();
    local += calls > left ? calls - left : 0;
  }
  return local;
}

}  // namespace

void WriteStats(const std::string& path, const Link::Counters& wire) {
  Stats* stats = g_stats.load();
  if (stats == nullptr || path.empty()) return;
  std::string part = path + "." + std::to_string(getpid());
  FILE* file = std::fopen(part.c_str(), "we");
  if (file == nullptr) {
    Log(LogLevel::kWarn, "FARCALL_STATS=%s cannot be written", path.c_str());
    return;
  }
  std::fprintf(file,
               "{\"round_trips\": %" PRIu64 ", \"posted\": %" PRIu64 ", \"local\": %" PRIu64
               ", \"bytes_out\": %" PRIu64 ", \"bytes_in\": %" PRIu64 ", \"batches\": %" PRIu64
               ", \"wall_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 ",\n  \"calls\": {",
               stats->round_trips.load(), stats->posted.load(), LocalCalls(stats),
               wire.bytes_out + wire.chunk_bytes_out, wire.bytes_in + wire.chunk_bytes_in,
               wire.frames_out, NowNs() - stats->start_ns, stats->wait_ns.load());
  WriteCalls(file, stats);
  std::fputs("}}\n", file);
  bool whole = std::fclose(file) == 0;
  if (!whole || std::rename(part.c_str(), path.c_str()) != 0) {
    Log(LogLevel::kWarn, "FARCALL_STATS=%s cannot be written", path.c_str());
    std::remove(part.c_str());
  }
}

}  // namespace farcall::client
