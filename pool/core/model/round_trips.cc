// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/round_trips.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

namespace farcall::pool {

std::string FaultOf(const std::vector<RoundTrip>& table) {
  if (table.size() > kMaxRoundTrips)
    return std::to_string(table.size()) + " round trips: at most " + std::to_string(kMaxRoundTrips);
  std::set<std::pair<std::string, std::string>> known;
  for (const RoundTrip& one : table) {
    for (const std::string* zone : {&one.from, &one.to})
      if (zone->empty() || !FaultOf(Labels{{kZoneLabel, *zone}}).empty())
        return "'" + zone->substr(0, 64) + "' is no zone: 1 to 63 letters, digits and . _ - /";
    if (one.from == one.to) return "zone '" + one.from + "' to itself: its round trip is 0";
    if (one.us > kMaxRoundTripUs)
      return "zones '" + one.from + "' and '" + one.to + "': " + std::to_string(one.us) +
             " us; at most " + std::to_string(kMaxRoundTripUs);
    if (!known.insert(std::minmax(one.from, one.to)).second)
      return "zones '" + one.from + "' and '" + one.to + "' are there twice";
  }
  return "";
}

std::map<std::string, uint32_t> RoundTripsFrom(const std::vector<RoundTrip>& table,
                                               const std::string& zone) {
  if (zone.empty()) return {};
  std::map<std::string, uint32_t> times = {{zone, 0}};
  for (const RoundTrip& one : table) {
    if (one.from == zone) times[one.to] = one.us;
    if (one.to == zone) times[one.from] = one.us;
  }
  return times;
}

std::string LabelOf(const Labels& labels, const std::string& key) {
  auto found = labels.find(key);
  return found == labels.end() ? std::string() : found->second;
}

std::string RoundTripText(uint32_t us) {
  if (us == kFarUs) return "unknown";
  char text[32];
  std::snprintf(text, sizeof(text), "%g ms", us / 1000.0);
  return text;
}

}  // namespace farcall::pool
