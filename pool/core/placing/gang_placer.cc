// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/gang_placer.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "pool/core/placing/topology.h"

namespace farcall::pool {

namespace {

// What one host offers.
struct Offer {
  const Host* host = nullptr;
  std::vector<Candidate> gpus;  // the best first
  uint32_t members = 0;         // for which they are enough
};

// So many members on that host.
struct Pick {
  const Offer* offer = nullptr;
  uint32_t members = 0;
};

// The largest first, and last the smallest that is enough: no choice takes fewer hosts.
std::vector<Pick> Pack(std::vector<const Offer*> offers, uint32_t members) {
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer* a, const Offer* b) { return a->members > b->members; });
  std::vector<Pick> picks;
  picks.reserve(offers.size());
  for (size_t i = 0; members != 0; ++i) {
    size_t last = i;
    while (last + 1 < offers.size() && offers[last + 1]->members >= members) ++last;
    const uint32_t part = std::min(offers[last]->members, members);
    picks.push_back({offers[last], part});
    members -= part;
  }
  return picks;
}

// One on each in turn.
std::vector<Pick> Spread(std::vector<const Offer*> offers, uint32_t members) {
  std::stable_sort(offers.begin(), offers.end(), [](const Offer* a, const Offer* b) {
    return Emptiness(*a->host) > Emptiness(*b->host);
  });
  std::vector<Pick> picks;
  picks.reserve(offers.size());
  for (const Offer* offer : offers) picks.push_back({offer, 0});
  while (members != 0)
    for (Pick& pick : picks) {
      if (members == 0 || pick.members == pick.offer->members) continue;
      ++pick.members;
      --members;
    }
  return picks;
}

std::vector<const Offer*> Pointers(const std::vector<Offer>& offers) {
  std::vector<const Offer*> pointers;
  pointers.reserve(offers.size());
  for (const Offer& offer : offers) pointers.push_back(&offer);
  return pointers;
}

std::map<std::string, std::vector<const Offer*>> ByLabel(const std::vector<Offer>& offers,
                                                         const char* label) {
  std::map<std::string, std::vector<const Offer*>> parts;
  for (const Offer& offer : offers) parts[LabelOf(offer.host->labels, label)].push_back(&offer);
  return parts;
}

uint32_t RoomOf(const std::vector<const Offer*>& offers) {
  uint32_t room = 0;
  for (const Offer* offer : offers) room += offer->members;
  return room;
}

// On the hosts that have the label in common, those where it takes the fewest; none if no such
// hosts have room.
std::vector<Pick> PackByLabel(const std::vector<Offer>& offers, uint32_t members, const char* label,
                              bool counts_without) {
  std::vector<Pick> best;
  for (const auto& [value, of_label] : ByLabel(offers, label)) {
    if ((value.empty() && !counts_without) || RoomOf(of_label) < members) continue;
    std::vector<Pick> picks = Pack(of_label, members);
    if (best.empty() || picks.size() < best.size()) best = std::move(picks);
  }
  return best;
}

std::vector<Pick> PackByZone(const std::vector<Offer>& offers, uint32_t members) {
  std::vector<Pick> best = PackByLabel(offers, members, kZoneLabel, /*counts_without=*/true);
  return best.empty() ? Pack(Pointers(offers), members) : best;
}

// Of one rack, if one has room.
std::vector<Pick> PackByRack(const std::vector<Offer>& offers, uint32_t members) {
  std::vector<Pick> best = PackByLabel(offers, members, kRackLabel, /*counts_without=*/false);
  return best.empty() ? PackByZone(offers, members) : best;
}

// Of the nearest zone that has room for all; without such a zone of those that are as near as can
// be, each filled before the next.
std::vector<Pick> PackNear(const std::vector<Offer>& offers, uint32_t members,
                           const std::map<std::string, uint32_t>& times) {
  std::map<std::pair<uint32_t, std::string>, std::vector<const Offer*>> zones;
  for (const auto& [zone, of_zone] : ByLabel(offers, kZoneLabel)) {
    auto time = times.find(zone);
    zones[{time == times.end() ? kFarUs : time->second, zone}] = of_zone;
  }
  for (const auto& [zone, of_zone] : zones)
    if (RoomOf(of_zone) >= members) return Pack(of_zone, members);
  std::vector<Pick> picks;
  picks.reserve(offers.size());
  for (const auto& [zone, of_zone] : zones) {
    const uint32_t part = std::min(RoomOf(of_zone), members);
    const std::vector<Pick> more = Pack(of_zone, part);
    picks.insert(picks.end(), more.begin(), more.end());
    members -= part;
  }
  return picks;
}

std::vector<Pick> Choose(const std::vector<Offer>& offers, const Claim& claim,
                         const PlacerInputs& inputs) {
  const uint32_t members = claim.members();
  switch (claim.ask.placer) {
    case Placer::kSpread:
      return Spread(Pointers(offers), members);
    case Placer::kTopology:
      return PackByRack(offers, members);
    case Placer::kNear:
      if (inputs.round_trips != nullptr)
        if (const std::string zone = LabelOf(claim.ask.labels, kZoneLabel); !zone.empty())
          return PackNear(offers, members, RoundTripsFrom(*inputs.round_trips, zone));
      return PackByZone(offers, members);
    default:
      return PackByZone(offers, members);
  }
}

// All of them on one host, as a claim for all of their GPUs would be.
std::optional<GangPlaces> OnOneHost(const std::vector<const Host*>& hosts, const Claim& claim,
                                    const PlacerInputs& inputs) {
  Claim all = claim;
  all.ask.count = claim.ask.count * claim.members();
  all.ask.sizes.clear();
  const std::optional<Place> place = FindPlace(hosts, all, inputs);
  if (!place) return std::nullopt;
  // The GPUs of a member are close to each other as well.
  const Host& host = **std::find_if(hosts.begin(), hosts.end(),
                                    [&](const Host* one) { return one->name == place->host; });
  std::vector<Candidate> gpus;
  for (uint32_t device : place->devices) gpus.push_back({false, 0, device});
  ChooseByTopology(host, claim.ask.count, &gpus);
  GangPlaces places(claim.members(), Place{place->host, {}});
  for (size_t i = 0; i < gpus.size(); ++i)
    places[i / claim.ask.count].devices.push_back(gpus[i].device);
  for (Place& one : places) std::sort(one.devices.begin(), one.devices.end());
  return places;
}

}  // namespace

std::optional<GangPlaces> FindPlaces(const std::vector<const Host*>& hosts, const Claim& claim,
                                     const PlacerInputs& inputs) {
  if (claim.members() == 1) {
    std::optional<Place> place = FindPlace(hosts, claim, inputs);
    return place ? std::optional(GangPlaces{std::move(*place)}) : std::nullopt;
  }
  const bool is_by_topology = claim.ask.placer == Placer::kTopology;
  if (is_by_topology)
    if (std::optional<GangPlaces> places = OnOneHost(hosts, claim, inputs)) return places;
  std::vector<Offer> offers;
  for (const Host* host : hosts) {
    Offer offer{host, {}, 0};
    FindGpus(*host, claim, &offer.gpus);
    offer.members = static_cast<uint32_t>(offer.gpus.size()) / claim.ask.count;
    if (offer.members == 0) continue;
    if (is_by_topology) ChooseByTopology(*host, claim.ask.count, &offer.gpus);
    offers.push_back(std::move(offer));
  }
  if (RoomOf(Pointers(offers)) < claim.members()) return std::nullopt;
  const std::vector<Pick> picks = Choose(offers, claim, inputs);
  GangPlaces places;
  for (const Pick& pick : picks) {
    auto gpu = pick.offer->gpus.begin();
    for (uint32_t i = 0; i < pick.members; ++i) {
      Place& place = places.emplace_back(Place{pick.offer->host->name, {}});
      for (uint32_t n = 0; n < claim.ask.count; ++n) place.devices.push_back((gpu++)->device);
      std::sort(place.devices.begin(), place.devices.end());
    }
  }
  return places;
}

std::optional<GangPlaces> FindPlaces(const Hosts& hosts, const Claim& claim,
                                     const PlacerInputs& inputs) {
  if (claim.members() == 1) {
    std::optional<Place> place = FindPlace(hosts, claim, inputs);
    return place ? std::optional(GangPlaces{std::move(*place)}) : std::nullopt;
  }
  std::vector<const Host*> all;
  for (const auto& [name, host] : hosts) all.push_back(&host);
  return FindPlaces(all, claim, inputs);
}

}  // namespace farcall::pool
