// SPDX-License-Identifier: Apache-2.0
// What a server has served, from its start: for `farcall serve --report`, which `farcall run`
// reads.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/status.h"

namespace farcall::server {

struct RunTotals {
  struct Memory {
    uint64_t largest_session_bytes = 0;  // the most one session had in use at once
    uint64_t all_sessions_bytes = 0;     // the sum of each session's most
    uint64_t charged_bytes = 0;          // the most the ledger held at once, unspent credit with it
  };
  uint64_t sessions = 0;
  uint64_t bytes_up = 0, bytes_down = 0;    // as clients see it
  std::map<int, Memory> memory;             // by device
  std::map<std::string, uint64_t> skipped;  // launches that were not executed, by kernel

  void AddPeak(int device, uint64_t bytes);
  void NoteCharged(int device, uint64_t bytes);
};

std::string ToJson(const RunTotals& totals, const std::string& kind, const std::string& name);
//   Errors  kUnavailable (the file cannot be written)
Status WriteReport(const std::string& path, const std::string& text);

}  // namespace farcall::server
