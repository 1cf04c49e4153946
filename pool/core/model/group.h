// SPDX-License-Identifier: Apache-2.0
// A resource group: hosts with a sequencer, a placer and limits of their own. A host is of one
// group; those that no other has are of `default`, which is always there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/core/model/round_trips.h"
#include "pool/core/model/selector.h"
#include "pool/core/model/tflops.h"
#include "pool/core/model/types.h"
#include "settings/oversubscribe.h"

namespace farcall::pool {

// What people call it; Ask::group and Host::group have "" instead.
inline constexpr char kDefaultGroup[] = "default";
inline constexpr size_t kMaxGroupHosts = 10'000, kMaxGroupProjects = 1000;

struct Group {
  std::string name;
  Selector selector;
  std::vector<std::string> hosts;
  std::vector<std::string> projects;  // whose claims, and those below, may name it; empty: any
  std::string sequencer;              // empty: the pool's
  Placer placer = Placer::kUnnamed;   // of claims that name none; kUnnamed: the pool's
  // For `near`; none: those of the default group.
  std::vector<RoundTrip> round_trips;
  // What claims for TFLOPS go by; none: those of the default group.
  std::vector<ModelTflops> tflops;
  // Of its GPUs' memory, what claims may have together; no more than each host lends.
  uint32_t oversubscribe_milli = kWholeMilli;
  uint32_t max_pending = 0, max_claims = 0;  // of claims that wait, that have a place; 0: no bound
  uint64_t revision = 0;
  bool operator==(const Group&) const = default;
};

// As people call it, and as claims and hosts have it.
inline std::string NameOfGroup(const std::string& kept) {
  return kept.empty() ? kDefaultGroup : kept;
}
inline std::string KeptGroup(const std::string& name) {
  return name == kDefaultGroup ? "" : name;
}

// What cannot be, and the field; "": nothing.
std::pair<std::string, std::string> FaultOf(const Group& group);
bool Takes(const Group& group, std::string_view project);
// Whether the group names the host, and whether its selector fits it.
bool Names(const Group& group, const Host& host);
bool Selects(const Group& group, const Host& host);

}  // namespace farcall::pool
