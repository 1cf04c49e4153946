// SPDX-License-Identifier: Apache-2.0
// Records played back: exactly, to see that the same follows from them; or as a what-if, with
// another order or placer and with hosts that are simulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pool/record/record.h"

namespace farcall::pool {

struct Replayed {
  uint64_t events = 0;
  Ms took = 0;  // of the core's clock
  uint64_t differs =
      0;            // the number of the first event from which something else followed; 0: none
  std::string how;  // what was recorded there, and what followed now
};

// Every event again.   Errors  kInvalid (the file)
Result<Replayed> Replay(RecordReader& reader);

struct WhatIf {
  std::string sequencer;  // empty: the record's
  std::string placer;     // of all claims; empty: as each asked
  Ms run_ms = 3'600'000;  // of a snapshot, which has no future: how long each claim runs from then
};
// How claims fared.
struct Fared {
  std::string sequencer, placer;                  // "" of the placer: as each asked
  size_t claims = 0;                              // that came, or waited when the record began
  size_t placed = 0, preempted = 0, waiting = 0;  // waiting: at the end
  std::vector<Ms> waits;                          // of those placed, until the first time
  double used_part = 0;                           // of the pool's GPUs, on average over time
  Ms took = 0;
  std::vector<std::string>
      placed_at_once;  // "CLAIM on HOST", of those that waited at the beginning
};

// A whole record in memory.
struct Recorded {
  v1::Snapshot snapshot;
  std::vector<v1::RecordedEvent> events;
};
//   Errors  kInvalid
Result<Recorded> ReadAll(RecordReader& reader);
// The claims and hosts of the record under those rules. Hosts take what they are given, and report
// when they did; a claim runs for as long as it did, and from the beginning again if it is
// preempted; one that never had a place is released when it was.
//   Errors  kInvalid (a sequencer or placer that there is not)
Result<Fared> Simulate(const Recorded& record, const WhatIf& what);

}  // namespace farcall::pool
