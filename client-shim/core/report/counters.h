// SPDX-License-Identifier: Apache-2.0
// What is counted of a process's calls. `farcall run` gives each process a file to keep it in
// (FARCALL_COUNTERS names their folder): what stands there survives the process, however it ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farcall::client {

struct CallCounters {
  std::atomic<uint64_t> calls{0}, posted{0}, waited{0}, local_left{0}, wait_ns{0};
};

// All zeros is a valid one: a file fresh from ftruncate.
struct Stats {
  static constexpr uint64_t kMagic = 0x3174736c6c616366;  // "fcallst1"
  static constexpr size_t kMaxCalls = 8192, kMaxLibraries = 64, kMaxPath = 256;

  uint64_t magic = 0;
  uint64_t start_ns = 0;
  std::atomic<uint64_t> round_trips{0}, posted{0}, wait_ns{0};
  CallCounters by_call[kMaxCalls];             // by call id; the last row takes what has no id
  std::atomic<uint64_t> libraries{0};          // rows below that hold a path
  char library[kMaxLibraries][kMaxPath] = {};  // whose kernels have been loaded

  CallCounters& Of(uint16_t call) { return by_call[call < kMaxCalls ? call : kMaxCalls - 1]; }
};

}  // namespace farcall::client
