// SPDX-License-Identifier: Apache-2.0
// Who is next in the queue. Queue priority comes before all of it; a sequencer orders the claims of
// one queue priority: the children of a project by a value, and claims among themselves by a turn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pool/core/model/project.h"
#include "pool/core/model/types.h"

namespace farcall::pool {

// What a project, or a tenant's part of one, has beside its siblings.
struct Standing {
  uint32_t weight = 1;
  Amounts used;
  double usage_ms = 0;  // parts of the pool's GPUs x milliseconds, the past counting less and less
};

class Sequencer {
 public:
  virtual ~Sequencer() = default;
  virtual std::string_view name() const = 0;
  // The sibling with the least is next; of equal ones that whose claim has the least turn.
  //   capacity  of the whole pool
  virtual double ValueOf(const Standing& standing, const Amounts& capacity) const = 0;
  // Of a claim, from the number in which it came.
  virtual uint64_t TurnOf(uint64_t order) const { return order; }
  // Whether values differ at all: else the order is that of turns.
  virtual bool is_by_project() const { return true; }
};

struct SequencerPolicy {
  std::string name = "fifo";              // one of SequencerNames
  Ms half_life = 7 * 24 * 3600 * 1000LL;  // of what `fair` remembers
  Placer placer = Placer::kPack;          // of claims of which neither they nor their group say
};

//   fifo  first come, first served
//   lifo  last come, first served
//   drf   dominant resource fairness: the least part of memory, of device time or of the hosts'
//         links, whichever is largest, by weight, of what is held now
//   fair  fair tree: the least device share x time, by weight, with a half-life
// nullptr: there is none of that name.
std::unique_ptr<const Sequencer> MakeSequencer(std::string_view name);
std::vector<std::string> SequencerNames();

// The largest of the parts that `used` is of `capacity`, over memory, device time and links.
double DominantShare(const Amounts& used, const Amounts& capacity);
// A usage, `passed` milliseconds later, of which the part `share` of the pool was held all along.
double Decayed(double usage_ms, double share, Ms passed, Ms half_life);

}  // namespace farcall::pool
