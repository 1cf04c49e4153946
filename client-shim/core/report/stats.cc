// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/report/stats.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "client-shim/core/report/log.h"
#include "generated/proto/call_id.h"

namespace farcall::client {

std::atomic<Stats*> g_stats{nullptr};

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

namespace {

// nullptr: it cannot be had, said in the log.
Stats* MapStats(const std::string& folder) {
  const std::string path = folder + "/" + std::to_string(getpid()) + ".counters";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  void* at = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(Stats)) == 0)
    at = mmap(nullptr, sizeof(Stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (at == MAP_FAILED) {
    Log(LogLevel::kWarn, "FARCALL_COUNTERS: %s cannot be written", path.c_str());
    return nullptr;
  }
  return static_cast<Stats*>(at);
}

}  // namespace

void StartStats(const std::string& folder) {
  if (g_stats.load() != nullptr) return;
  Stats* stats = folder.empty() ? nullptr : MapStats(folder);
  if (stats == nullptr) stats = new Stats;
  stats->start_ns = NowNs();
  stats->magic = Stats::kMagic;
  g_stats.store(stats);
}

std::string LibraryOf(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) == 0 || info.dli_fname == nullptr ? "" : info.dli_fname;
}

void CountLibrary(const void* image) {
  static std::mutex* mutex = new std::mutex;
  Stats* stats = g_stats.load(std::memory_order_relaxed);
  Dl_info info = {};
  if (stats == nullptr || dladdr(image, &info) == 0 || info.dli_fname == nullptr) return;
  std::lock_guard lock(*mutex);
  const uint64_t known = stats->libraries.load();
  for (uint64_t i = 0; i < known; ++i)
    if (std::strncmp(stats->library[i], info.dli_fname, Stats::kMaxPath - 1) == 0) return;
  if (known == Stats::kMaxLibraries) return;
  std::strncpy(stats->library[known], info.dli_fname, Stats::kMaxPath - 1);
  stats->libraries.store(known + 1);
}

namespace {

struct Row {
  uint64_t calls = 0, posted = 0, waited = 0, left = 0, wait_ns = 0;

  uint64_t local() const { return calls > left ? calls - left : 0; }
};

struct Counts {
  uint64_t round_trips = 0, posted = 0;
  std::vector<Row> rows = std::vector<Row>(Stats::kMaxCalls);

  // *this += later - earlier
  void AddDifference(const Counts& later, const Counts& earlier) {
    round_trips += later.round_trips - earlier.round_trips;
    posted += later.posted - earlier.posted;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].calls += later.rows[i].calls - earlier.rows[i].calls;
      rows[i].posted += later.rows[i].posted - earlier.rows[i].posted;
      rows[i].waited += later.rows[i].waited - earlier.rows[i].waited;
      rows[i].left += later.rows[i].left - earlier.rows[i].left;
      rows[i].wait_ns += later.rows[i].wait_ns - earlier.rows[i].wait_ns;
    }
  }
};

Counts Now(Stats* stats) {
  Counts counts;
  counts.round_trips = stats->round_trips.load();
  counts.posted = stats->posted.load();
  for (size_t i = 0; i < counts.rows.size(); ++i) {
    const CallCounters& row = stats->by_call[i];
    counts.rows[i] = {row.calls.load(), row.posted.load(), row.waited.load(), row.local_left.load(),
                      row.wait_ns.load()};
  }
  return counts;
}

struct Range {
  std::mutex mutex;
  bool open = false, used = false;
  Counts start, sum;

  void Close(Stats* stats) {
    if (open) sum.AddDifference(Now(stats), start);
    open = false;
  }
};

Range& TheRange() {
  static auto* range = new Range;
  return *range;
}

void WriteCalls(FILE* file, const Counts& counts) {
  uint64_t local = 0;
  for (const Row& row : counts.rows) local += row.local();
  std::fprintf(file,
               "\"round_trips\": %" PRIu64 ", \"posted\": %" PRIu64 ", \"local\": %" PRIu64
               ", \"calls\": {",
               counts.round_trips, counts.posted, local);
  bool first = true;
  for (size_t i = 0; i < counts.rows.size(); ++i) {
    const Row& row = counts.rows[i];
    if (row.calls == 0) continue;
    std::fprintf(file,
                 "%s\n    \"%s\": {\"calls\": %" PRIu64 ", \"posted\": %" PRIu64
                 ", \"waited\": %" PRIu64 ", \"local\": %" PRIu64 ", \"wait_ns\": %" PRIu64 "}",
                 first ? "" : ",", CallName(static_cast<uint16_t>(i)), row.calls, row.posted,
                 row.waited, row.local(), row.wait_ns);
    first = false;
  }
  std::fputs("}", file);
}

}  // namespace

void OpenStatsRange() {
  Stats* stats = g_stats.load();
  if (stats == nullptr) return;
  Range& range = TheRange();
  std::lock_guard lock(range.mutex);
  if (range.open) return;
  range.open = range.used = true;
  range.start = Now(stats);
}

void CloseStatsRange() {
  Stats* stats = g_stats.load();
  if (stats == nullptr) return;
  Range& range = TheRange();
  std::lock_guard lock(range.mutex);
  range.Close(stats);
}

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
               "{\"bytes_out\": %" PRIu64 ", \"bytes_in\": %" PRIu64 ", \"batches\": %" PRIu64
               ", \"wall_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 ",\n  ",
               wire.bytes_out + wire.chunk_bytes_out, wire.bytes_in + wire.chunk_bytes_in,
               wire.frames_out, NowNs() - stats->start_ns, stats->wait_ns.load());
  WriteCalls(file, Now(stats));
  Range& range = TheRange();
  std::lock_guard lock(range.mutex);
  range.Close(stats);
  if (range.used) {
    std::fputs(",\n  \"profiled\": {", file);
    WriteCalls(file, range.sum);
    std::fputs("}", file);
  }
  std::fputs("}\n", file);
  bool whole = std::fclose(file) == 0;
  if (!whole || std::rename(part.c_str(), path.c_str()) != 0) {
    Log(LogLevel::kWarn, "FARCALL_STATS=%s cannot be written", path.c_str());
    std::remove(part.c_str());
  }
}

}  // namespace farcall::client
