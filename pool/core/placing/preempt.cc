// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/preempt.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace farcall::pool {

namespace {

// Who would rather stay comes last.
bool LeavesBefore(const Claim* a, const Claim* b) {
  return std::tie(a->ask.queue_priority, a->sessions, b->placed, a->id) <
         std::tie(b->ask.queue_priority, b->sessions, a->placed, b->id);
}

bool IsOn(const Claim& claim, uint32_t device) {
  return std::count(claim.devices.begin(), claim.devices.end(), device) != 0;
}

void TakeOff(GpuUse* use, const Claim& claim) {
  use->used_bytes -= std::min(use->used_bytes, claim.held_bytes());
  use->used_milli -= std::min(use->used_milli, claim.held_milli());
  use->claims -= std::min(use->claims, 1u);
  use->exclusive -= std::min(use->exclusive, claim.is_exclusive() ? 1u : 0u);
}

// Of the GPU, both resources weighing alike.
double PartOf(const Claim& claim, const Gpu& gpu) {
  const double bytes = gpu.memory_bytes == 0 ? 0
                                             : static_cast<double>(claim.held_bytes()) /
                                                   static_cast<double>(gpu.memory_bytes);
  return bytes + static_cast<double>(claim.held_milli()) / kWholeMilli;
}

using Victims = std::set<const Claim*, decltype(&LeavesBefore)>;

// Of one host, as it would be without those who have been chosen so far.
class OneHost {
 public:
  OneHost(const Host& host, const Claim& claim, std::vector<const Claim*> may_leave)
      : gpus_(host.gpus),
        uses_(host.gpus.begin(), host.gpus.end()),
        claim_(claim),
        may_leave_(std::move(may_leave)) {
    std::sort(may_leave_.begin(), may_leave_.end(), LeavesBefore);
  }

  // On as many GPUs as the claim asks for, one after the other; false: there are not enough, or
  // more than so many would have to leave.
  bool Choose(size_t most_victims) {
    if (!ChooseDevices(1, most_victims)) return false;
    std::sort(devices_.begin(), devices_.end());
    return true;
  }

  // For so many members of its gang more, one after the other, as Choose does: who leaves for the
  // first of them, for the first two, ...; as many as there could be room for.
  std::vector<std::vector<const Claim*>> ChooseForMembers(uint32_t most) {
    std::vector<std::vector<const Claim*>> chosen;
    while (chosen.size() < most && ChooseDevices(chosen.size() + 1, SIZE_MAX))
      chosen.emplace_back(victims_.begin(), victims_.end());
    return chosen;
  }

  // In the order in which they were chosen, from ChooseForMembers.
  const std::vector<uint32_t>& devices() const { return devices_; }
  const Victims& victims() const { return victims_; }

 private:
  bool ChooseDevices(size_t members, size_t most_victims) {
    while (devices_.size() < claim_.ask.count * members) {
      std::optional<std::vector<const Claim*>> best;
      uint32_t best_device = 0;
      for (uint32_t device = 0; device < gpus_.size(); ++device) {
        if (std::count(devices_.begin(), devices_.end(), device) != 0) continue;
        std::optional<std::vector<const Claim*>> needed = Needed(device);
        if (!needed || (best && needed->size() >= best->size())) continue;
        best = std::move(needed);
        best_device = device;
      }
      if (!best) return false;
      devices_.push_back(best_device);
      for (const Claim* victim : *best) Remove(*victim);
      if (victims_.size() > most_victims) return false;
    }
    return true;
  }

  // Who else has to leave before the claim fits on this GPU; nullopt: it never does.
  std::optional<std::vector<const Claim*>> Needed(uint32_t device) const {
    std::vector<const Claim*> all;
    for (const Claim* other : may_leave_)
      if (victims_.count(other) == 0 && IsOn(*other, device)) all.push_back(other);
    if (!FitsWithout(device, all)) return std::nullopt;
    if (FitsWithout(device, {})) return std::vector<const Claim*>();
    if (all.size() == 1) return all;
    // Who would rather stay is the first to be let off; or who gives least, which may leave fewer.
    std::vector<const Claim*> by_size = all;
    std::stable_sort(by_size.begin(), by_size.end(),
                     [this, device](const Claim* a, const Claim* b) {
                       return PartOf(*a, gpus_[device]) > PartOf(*b, gpus_[device]);
                     });
    LetOff(device, &all);
    LetOff(device, &by_size);
    return by_size.size() < all.size() ? by_size : all;
  }
  // From the end on, each without whom the claim would still fit.
  void LetOff(uint32_t device, std::vector<const Claim*>* leave) const {
    for (size_t i = leave->size(); i-- > 0;) {
      std::vector<const Claim*> fewer = *leave;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
      if (FitsWithout(device, fewer)) *leave = std::move(fewer);
    }
  }
  bool FitsWithout(uint32_t device, const std::vector<const Claim*>& gone) const {
    GpuUse use = uses_[device];
    for (const Claim* other : gone) TakeOff(&use, *other);
    return JudgeGpu(gpus_[device], use, claim_) == Filter::kNone;
  }
  void Remove(const Claim& victim) {
    victims_.insert(&victim);
    for (uint32_t device : victim.devices)
      if (device < uses_.size()) TakeOff(&uses_[device], victim);
  }

  const std::vector<Gpu>& gpus_;
  std::vector<GpuUse> uses_;
  const Claim& claim_;
  std::vector<const Claim*> may_leave_;
  std::vector<uint32_t> devices_;
  Victims victims_{&LeavesBefore};
};

// The least is best.
struct Cost {
  size_t victims = 0;
  int64_t priorities = 0;
  uint64_t sessions = 0;
  int64_t ages = 0;
  bool operator<(const Cost& other) const {
    return std::tie(victims, priorities, sessions, ages) <
           std::tie(other.victims, other.priorities, other.sessions, other.ages);
  }
};

// A gang counts with all its members, whose sessions and ages are taken for those of the ones here.
template <typename Claims>
Cost CostOf(const Claims& victims) {
  Cost cost;
  std::set<std::string_view> gangs;
  for (const Claim* victim : victims) {
    if (victim->gang.empty())
      ++cost.victims;
    else if (gangs.insert(victim->gang).second)
      cost.victims += victim->gang_size;
    cost.priorities += victim->ask.queue_priority;
    cost.sessions += victim->sessions;
    cost.ages -= victim->placed;
  }
  return cost;
}

Cost operator+(const Cost& a, const Cost& b) {
  return {a.victims + b.victims, a.priorities + b.priorities, a.sessions + b.sessions,
          a.ages + b.ages};
}

std::optional<Eviction> ForOne(const Hosts& hosts, const Leavers& leavers, const Claim& claim) {
  std::optional<Eviction> best;
  Cost best_cost;
  for (const auto& [name, host] : hosts) {
    if (host.gpus.size() < claim.ask.count || JudgeHost(host, claim) != Filter::kNone) continue;
    auto may_leave = leavers.find(name);
    if (may_leave == leavers.end()) continue;
    OneHost chosen(host, claim, may_leave->second);
    if (!chosen.Choose(best ? best_cost.victims : SIZE_MAX) || chosen.victims().empty()) continue;
    const Cost cost = CostOf(chosen.victims());
    if (best && !(cost < best_cost)) continue;
    best_cost = cost;
    best = Eviction{{{name, chosen.devices()}}, {}};
    for (const Claim* victim : chosen.victims()) best->victims.push_back(victim->id);
  }
  return best;
}

// A host that could hold members of a gang.
struct Part {
  const std::string* host = nullptr;
  std::vector<uint32_t> devices;                 // member by member
  std::vector<std::vector<const Claim*>> leave;  // for the first member, the first two, ...
};

// How many members each part gets, so that the least has to leave in all; empty: there is no room.
std::vector<size_t> Share(const std::vector<Part>& parts, size_t members) {
  // The least for so many members on the parts so far, and how many the last of them then has.
  std::vector<std::optional<Cost>> least(members + 1);
  std::vector<std::vector<size_t>> has(parts.size(), std::vector<size_t>(members + 1));
  least[0] = Cost{};
  for (size_t part = 0; part < parts.size(); ++part) {
    const std::vector<std::vector<const Claim*>>& leave = parts[part].leave;
    std::vector<Cost> costs = {Cost{}};
    for (const auto& victims : leave) costs.push_back(CostOf(victims));
    std::vector<std::optional<Cost>> with = least;
    for (size_t all = 1; all <= members; ++all)
      for (size_t here = 1; here <= std::min(all, leave.size()); ++here) {
        if (!least[all - here]) continue;
        const Cost cost = *least[all - here] + costs[here];
        if (with[all] && !(cost < *with[all])) continue;
        with[all] = cost;
        has[part][all] = here;
      }
    least = std::move(with);
  }
  if (!least[members]) return {};
  std::vector<size_t> shares(parts.size());
  for (size_t part = parts.size(); part-- > 0;) {
    shares[part] = has[part][members];
    members -= shares[part];
  }
  return shares;
}

std::optional<Eviction> ForGang(const Hosts& hosts, const Leavers& leavers, const Claim& claim) {
  std::vector<Part> parts;
  for (const auto& [name, host] : hosts) {
    if (host.gpus.size() < claim.ask.count || JudgeHost(host, claim) != Filter::kNone) continue;
    auto may_leave = leavers.find(name);
    OneHost chosen(host, claim,
                   may_leave == leavers.end() ? std::vector<const Claim*>() : may_leave->second);
    Part part{&name, {}, chosen.ChooseForMembers(claim.members())};
    part.devices = chosen.devices();
    if (!part.leave.empty()) parts.push_back(std::move(part));
  }
  const std::vector<size_t> shares = Share(parts, claim.members());
  if (shares.empty()) return std::nullopt;
  Eviction eviction;
  std::set<std::string> gangs;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto device = parts[i].devices.begin();
    for (size_t member = 0; member < shares[i]; ++member) {
      Place& place = eviction.places.emplace_back(Place{*parts[i].host, {}});
      for (uint32_t n = 0; n < claim.ask.count; ++n) place.devices.push_back(*device++);
      std::sort(place.devices.begin(), place.devices.end());
    }
    if (shares[i] == 0) continue;
    for (const Claim* victim : parts[i].leave[shares[i] - 1])
      if (victim->gang.empty() || gangs.insert(victim->gang).second)
        eviction.victims.push_back(victim->id);
  }
  if (eviction.victims.empty()) return std::nullopt;
  return eviction;
}

}  // namespace

std::optional<Eviction> FindEviction(const Hosts& hosts, const Leavers& leavers,
                                     const Claim& claim) {
  std::optional<Eviction> best =
      claim.members() == 1 ? ForOne(hosts, leavers, claim) : ForGang(hosts, leavers, claim);
  if (best) std::sort(best->victims.begin(), best->victims.end());
  return best;
}

}  // namespace farcall::pool
