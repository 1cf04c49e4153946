// SPDX-License-Identifier: Apache-2.0
// Where the members of a gang go, all of them at once: each on GPUs of one host, no two on one GPU.
#pragma once

#include <optional>
#include <vector>

#include "pool/core/model/types.h"
#include "pool/core/placing/placer.h"

namespace farcall::pool {

using GangPlaces = std::vector<Place>;  // by member

// GangPlaces for all members of the claim's gang, or none. Members ask for the same, so they fit if
// and only if the hosts have room for so many of them one by one.
//   pack    of one zone if one has room (the label `zone`), on the fewest hosts, then the tightest
//   spread  on as many hosts as there are, the emptiest first
//   fgd     as pack
//   near    of the zone with the shortest round trip that has room; else of the nearest ones
//   topology  on one host, as a claim for all of their GPUs; else of one rack (the label `rack`) on
//             the fewest hosts; else as pack
// Of a claim alone: as FindPlace.
std::optional<GangPlaces> FindPlaces(const std::vector<const Host*>& hosts, const Claim& claim,
                                     const PlacerInputs& inputs = {});
std::optional<GangPlaces> FindPlaces(const Hosts& hosts, const Claim& claim,
                                     const PlacerInputs& inputs = {});

}  // namespace farcall::pool
