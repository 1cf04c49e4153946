// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/topology.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace farcall::pool {

namespace {

using Range = std::vector<Candidate>::iterator;

// Of one kind; 0: none that is known.
uint32_t GroupOf(const Gpu& gpu, Closeness kind) {
  return kind == Closeness::kNvlinkGroup ? gpu.link : gpu.node;
}

// Brings the GPUs of the group that is to be taken to the front; false: no group has enough.
bool BringForward(const Host& host, uint32_t count, Closeness kind, Range begin, Range end) {
  std::map<uint32_t, uint32_t> free;  // candidates by group
  for (auto at = begin; at != end; ++at)
    if (const uint32_t group = GroupOf(host.gpus[at->device], kind); group != 0) ++free[group];
  uint32_t best = 0;
  // Of equal ones that which has the best candidate.
  for (auto at = begin; at != end; ++at) {
    const uint32_t group = GroupOf(host.gpus[at->device], kind);
    if (group != 0 && free[group] >= count && (best == 0 || free[group] < free[best])) best = group;
  }
  if (best == 0) return false;
  std::stable_partition(begin, end, [&](const Candidate& one) {
    return GroupOf(host.gpus[one.device], kind) == best;
  });
  return true;
}

Closeness ChooseFirst(const Host& host, uint32_t count, Range begin, Range end) {
  for (Closeness kind : {Closeness::kNvlinkGroup, Closeness::kNumaNode})
    if (BringForward(host, count, kind, begin, end)) return kind;
  return count == 1 ? Closeness::kNvlinkGroup : Closeness::kHost;
}

}  // namespace

Closeness ClosenessOf(const Host& host, const std::vector<uint32_t>& devices) {
  for (Closeness kind : {Closeness::kNvlinkGroup, Closeness::kNumaNode}) {
    auto is_of = [&](uint32_t device) {
      return device < host.gpus.size() && GroupOf(host.gpus[device], kind) != 0 &&
             GroupOf(host.gpus[device], kind) == GroupOf(host.gpus[devices.front()], kind);
    };
    if (devices.size() < 2 || std::all_of(devices.begin(), devices.end(), is_of)) return kind;
  }
  return Closeness::kHost;
}

const char* ToText(Closeness closeness) {
  switch (closeness) {
    case Closeness::kNvlinkGroup:
      return "one NVLink group";
    case Closeness::kNumaNode:
      return "one NUMA node";
    case Closeness::kHost:
      return "one host";
    case Closeness::kRack:
      return "one rack";
    case Closeness::kPool:
      return "several racks";
  }
  return "";
}

Closeness ChooseByTopology(const Host& host, uint32_t count, std::vector<Candidate>* candidates) {
  const Closeness first = ChooseFirst(host, count, candidates->begin(), candidates->end());
  for (size_t at = count; at + count <= candidates->size(); at += count)
    ChooseFirst(host, count, candidates->begin() + static_cast<ptrdiff_t>(at), candidates->end());
  return first;
}

}  // namespace farcall::pool
