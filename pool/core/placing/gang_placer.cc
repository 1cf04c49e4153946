// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/gang_placer.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

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

uint32_t RoomOf(const std::vector<Offer>& offers) {
  uint32_t room = 0;
  for (const Offer& offer : offers) room += offer.members;
  return room;
}

// The largest first, and last the smallest that is enough: no choice takes fewer hosts.
std::vector<Pick> Pack(std::vector<const Offer*> offers, uint32_t members) {
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer* a, const Offer* b) { return a->members > b->members; });
  std::vector<Pick> picks;
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
  for (const Offer& offer : offers) pointers.push_back(&offer);
  return pointers;
}

std::string ZoneOf(const Host& host) {
  auto zone = host.labels.find("zone");
  return zone == host.labels.end() ? std::string() : zone->second;
}

std::vector<Pick> PackByZone(const std::vector<Offer>& offers, uint32_t members) {
  std::map<std::string, std::vector<const Offer*>> zones;
  for (const Offer& offer : offers) zones[ZoneOf(*offer.host)].push_back(&offer);
  std::vector<Pick> best;
  for (const auto& [zone, of_zone] : zones) {
    uint32_t room = 0;
    for (const Offer* offer : of_zone) room += offer->members;
    if (room < members) continue;
    std::vector<Pick> picks = Pack(of_zone, members);
    if (best.empty() || picks.size() < best.size()) best = std::move(picks);
  }
  return best.empty() ? Pack(Pointers(offers), members) : best;
}

}  // namespace

std::optional<GangPlaces> FindPlaces(const std::vector<const Host*>& hosts, const Claim& claim,
                                     const Demand* demand) {
  if (claim.members() == 1) {
    std::optional<Place> place = FindPlace(hosts, claim, demand);
    return place ? std::optional(GangPlaces{std::move(*place)}) : std::nullopt;
  }
  std::vector<Offer> offers;
  for (const Host* host : hosts) {
    Offer offer{host, {}, 0};
    FindGpus(*host, claim, &offer.gpus);
    offer.members = static_cast<uint32_t>(offer.gpus.size()) / claim.ask.count;
    if (offer.members != 0) offers.push_back(std::move(offer));
  }
  if (RoomOf(offers) < claim.members()) return std::nullopt;
  const std::vector<Pick> picks = claim.ask.placer == Placer::kSpread
                                      ? Spread(Pointers(offers), claim.members())
                                      : PackByZone(offers, claim.members());
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

std::optional<GangPlaces> FindPlaces(const Hosts& hosts, const Claim& claim, const Demand* demand) {
  if (claim.members() == 1) {
    std::optional<Place> place = FindPlace(hosts, claim, demand);
    return place ? std::optional(GangPlaces{std::move(*place)}) : std::nullopt;
  }
  std::vector<const Host*> all;
  for (const auto& [name, host] : hosts) all.push_back(&host);
  return FindPlaces(all, claim);
}

}  // namespace farcall::pool
