// SPDX-License-Identifier: Apache-2.0
// Where a claim goes: filters say which GPUs could take it, a placer picks among them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/core/model/round_trips.h"
#include "pool/core/model/types.h"
#include "pool/core/placing/candidate.h"
#include "pool/core/placing/fragments.h"

namespace farcall::pool {

using Hosts = std::map<std::string, Host>;

struct Place {
  std::string host;
  std::vector<uint32_t> devices;
};

enum class Filter : uint8_t {
  kNone,       // it fits
  kNotReady,   // its host is silent, or has not reported yet
  kClosed,     // its host drains or is cordoned
  kOtherHost,  // the claim names another
  kNetwork,    // its host allows less of the network
  kRefused,    // that host's ledger has refused the claim
  kModel,      // another model
  kMemory,     // too little memory is free
  kShare,      // too little share is free
  kShared,     // others are on it, and the claim wants all of it (or the reverse)
  kKept,       // it would fit, but the place is kept for a claim before it in the queue
  kTooFew,     // it would fit, but its host has not enough that do
  kQuota,      // its project may have no more of that model
  kSelector,   // its selector wants other labels
  kReserved,   // a reservation has it, or would before the claim ends; or not the one that it names
  kGroup,      // its host is of another group
  kTflops,     // its model's TFLOPS are too few, or not known, or not those of its host's others
};
inline constexpr size_t kFilters = 17;
std::string_view ToText(Filter filter);

// How a pass over all GPUs went: why a claim waits.
struct Pass {
  uint32_t gpus = 0;
  std::array<uint32_t, kFilters> removed{};  // [Filter]
  uint64_t most_free_bytes = 0;              // of GPUs that only memory rules out
  uint32_t most_free_milli = 0;              // of those that only share rules out
  bool could_ever_fit = false;               // if all claims ended
  // Of a gang: for how many members there is room, and would be then.
  uint32_t members_now = 0, members_ever = 0;
};

// Whether a reservation keeps the claim off the GPU.
inline bool IsReserved(const Gpu& gpu, const Claim& claim) {
  if (claim.reservation != 0) return gpu.reserved != claim.reservation || gpu.reserved_from != 0;
  return gpu.reserved != 0 && claim.ends > gpu.reserved_from;
}

// Whether those of the host's GPUs that could do what the claim asks for differ in TFLOPS. A claim
// has the same share of each of its GPUs, so one for several of them needs equally fast ones.
bool MixesTflops(const Host& host, const Ask& ask);

// What rules the host out for the claim, and the GPU on a host that is not.
Filter JudgeHost(const Host& host, const Claim& claim);
Filter JudgeGpu(const Gpu& gpu, const Claim& claim);
// The same, as if claims held so much of it.
Filter JudgeGpu(const Gpu& gpu, const GpuUse& use, const Claim& claim);

// The host's GPUs on which the claim fits, the best by its rule first; none if the host is ruled
// out.
void FindGpus(const Host& host, const Claim& claim, std::vector<Candidate>* fit);
// Of all its GPUs, both resources weighing alike: 0 = full, 2 = nothing is taken.
double Emptiness(const Host& host);

// What placers know beside the hosts and the claim.
struct PlacerInputs {
  PlacerInputs(const Demand* wanted = nullptr, const std::vector<RoundTrip>* times = nullptr)
      : demand(wanted), round_trips(times) {}
  const Demand* demand;                       // of fgd; nullptr: as pack
  const std::vector<RoundTrip>* round_trips;  // of near; nullptr: none is known
};

// The best place by the claim's rule, or none.
//   pack    begun GPUs before empty ones, the tightest first; then the fullest host, then by name
//   spread  the emptiest host, then its emptiest GPU
//   fgd     where it leaves the least that claims of `demand` could not use; of equals, as pack.
//           Without a demand as pack
//   near    the host whose zone has the shortest round trip to the claim's; of equals, as pack.
//           A zone whose round trip is not known is farther than any other
//   topology  GPUs of one NVLink group, else of one NUMA node, else of one host; of equals, as pack
std::optional<Place> FindPlace(const Hosts& hosts, const Claim& claim,
                               const PlacerInputs& inputs = {});
// The same, of these hosts.
std::optional<Place> FindPlace(const std::vector<const Host*>& hosts, const Claim& claim,
                               const PlacerInputs& inputs = {});
Pass Examine(const Hosts& hosts, const Claim& claim);

}  // namespace farcall::pool
