// SPDX-License-Identifier: Apache-2.0
// Round-trip times between zones. A host's zone is its label `zone`, and so is a claim's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pool/core/model/selector.h"

namespace farcall::pool {

inline constexpr char kZoneLabel[] = "zone", kRackLabel[] = "rack";
inline constexpr size_t kMaxRoundTrips = 1000;
inline constexpr uint32_t kMaxRoundTripUs = 10'000'000;
inline constexpr uint32_t kFarUs = UINT32_MAX;  // of zones whose round trip nobody has told

// The same in both directions.
struct RoundTrip {
  std::string from, to;
  uint32_t us = 0;
  bool operator==(const RoundTrip&) const = default;
};

// What cannot be, in one line; "": nothing.
std::string FaultOf(const std::vector<RoundTrip>& table);

// To each zone that is known from that one, itself at 0. Nothing for "", which is no zone.
std::map<std::string, uint32_t> RoundTripsFrom(const std::vector<RoundTrip>& table,
                                               const std::string& zone);

// "": it has no such label.
std::string LabelOf(const Labels& labels, const std::string& key);
// As "0.3 ms"; of kFarUs "unknown".
std::string RoundTripText(uint32_t us);

}  // namespace farcall::pool
