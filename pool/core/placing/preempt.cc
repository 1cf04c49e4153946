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

// Of one host, as it would be without those who have been chosen so far. Made once for a search,
// and told of one host after the other, so that most hosts cost no allocation.
class OneHost {
 public:
  explicit OneHost(const Claim& claim) : claim_(claim) {}

  // From then on of that host. The claims come in any order.
  void Look(const Host& host, std::vector<const Claim*>* may_leave) {
    gpus_ = &host.gpus;
    uses_.assign(host.gpus.begin(), host.gpus.end());
    may_leave_.swap(*may_leave);
    std::sort(may_leave_.begin(), may_leave_.end(), LeavesBefore);
    is_gone_.assign(may_leave_.size(), false);
    gone_ = 0;
    devices_.clear();
    if (needs_.size() < uses_.size()) needs_.resize(uses_.size());
    for (uint32_t device = 0; device < uses_.size(); ++device) {
      needs_[device].on.clear();
      needs_[device].is_known = needs_[device].is_taken = false;
    }
    for (uint32_t i = 0; i < may_leave_.size(); ++i)
      for (uint32_t device : may_leave_[i]->devices) {
        if (device >= uses_.size()) continue;
        std::vector<uint32_t>& on = needs_[device].on;
        if (on.empty() || on.back() != i) on.push_back(i);
      }
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
      chosen.push_back(victims());
    return chosen;
  }

  // In the order in which they were chosen, from ChooseForMembers.
  const std::vector<uint32_t>& devices() const { return devices_; }
  std::vector<const Claim*> victims() const {
    std::vector<const Claim*> victims;
    for (uint32_t i = 0; i < may_leave_.size(); ++i)
      if (is_gone_[i]) victims.push_back(may_leave_[i]);
    return victims;
  }

 private:
  // What one GPU needs. Claims are numbers in may_leave_, in that order.
  struct Need {
    std::vector<uint32_t> on;     // those that are on it
    std::vector<uint32_t> leave;  // who else has to leave before the claim fits
    bool is_known = false;        // of this and the last
    bool is_possible = false;     // if not, it never fits
    bool is_taken = false;        // by the claim
  };

  bool ChooseDevices(size_t members, size_t most_victims) {
    while (devices_.size() < claim_.ask.count * members) {
      Need* best = nullptr;
      uint32_t best_device = 0;
      for (uint32_t device = 0; device < uses_.size(); ++device) {
        Need& need = needs_[device];
        if (need.is_taken) continue;
        if (!need.is_known) Learn(device, &need);
        if (!need.is_possible || (best && need.leave.size() >= best->leave.size())) continue;
        best = &need;
        best_device = device;
      }
      if (!best) return false;
      devices_.push_back(best_device);
      best->is_taken = true;
      for (uint32_t victim : best->leave) Remove(victim);
      if (gone_ > most_victims) return false;
    }
    return true;
  }

  void Learn(uint32_t device, Need* need) {
    need->is_known = true;
    std::vector<uint32_t>& all = need->leave;
    all.clear();
    for (uint32_t other : need->on)
      if (!is_gone_[other]) all.push_back(other);
    need->is_possible = FitsWithout(device, all);
    if (!need->is_possible) return;
    // A whole GPU needs all of them gone.
    if (claim_.ask.memory_bytes == 0 && uses_[device].claims == all.size()) return;
    if (FitsWithout(device, {})) return all.clear();
    if (all.size() == 1) return;
    // Who would rather stay is the first to be let off; or who gives least, which may leave fewer.
    by_size_ = all;
    std::stable_sort(by_size_.begin(), by_size_.end(), [this, device](uint32_t a, uint32_t b) {
      return PartOf(*may_leave_[a], (*gpus_)[device]) > PartOf(*may_leave_[b], (*gpus_)[device]);
    });
    LetOff(device, &all);
    LetOff(device, &by_size_);
    if (by_size_.size() < all.size()) all = by_size_;
  }
  // From the end on, each without whom the claim would still fit.
  void LetOff(uint32_t device, std::vector<uint32_t>* leave) {
    for (size_t i = leave->size(); i-- > 0;) {
      fewer_ = *leave;
      fewer_.erase(fewer_.begin() + static_cast<ptrdiff_t>(i));
      if (FitsWithout(device, fewer_)) leave->swap(fewer_);
    }
  }
  bool FitsWithout(uint32_t device, const std::vector<uint32_t>& gone) const {
    GpuUse use = uses_[device];
    for (uint32_t other : gone) TakeOff(&use, *may_leave_[other]);
    return JudgeGpu((*gpus_)[device], use, claim_) == Filter::kNone;
  }
  void Remove(uint32_t victim) {
    is_gone_[victim] = true;
    ++gone_;
    for (uint32_t device : may_leave_[victim]->devices) {
      if (device >= uses_.size()) continue;
      TakeOff(&uses_[device], *may_leave_[victim]);
      needs_[device].is_known = false;
    }
  }

  const Claim& claim_;
  const std::vector<Gpu>* gpus_ = nullptr;
  std::vector<GpuUse> uses_;
  std::vector<const Claim*> may_leave_;
  std::vector<bool> is_gone_;
  size_t gone_ = 0;
  std::vector<Need> needs_;  // by device; there may be more than the host has
  std::vector<uint32_t> devices_;
  std::vector<uint32_t> by_size_, fewer_;  // of Learn and LetOff
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
Cost CostOf(const std::vector<const Claim*>& victims) {
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

// Who may leave, host by host, in the order of their names.
class Candidates {
 public:
  Candidates(const Hosts& hosts, const Leavers& leavers, const MayLeave& may_leave,
             const Claim& claim)
      : claim_(claim),
        may_leave_(may_leave),
        leavers_(leavers),
        at_(hosts.begin()),
        end_(hosts.end()),
        next_(leavers.begin()) {}

  // The next host that could take the claim; nullptr: there is none.
  const Host* Next(std::vector<const Claim*>* may_leave) {
    for (; at_ != end_; ++at_) {
      const auto& [name, host] = *at_;
      while (next_ != leavers_.end() && next_->first < name) ++next_;
      may_leave->clear();
      if (host.gpus.size() < claim_.ask.count || JudgeHost(host, claim_) != Filter::kNone) continue;
      if (next_ != leavers_.end() && next_->first == name)
        for (const Claim* other : next_->second)
          if (may_leave_(*other)) may_leave->push_back(other);
      ++at_;
      return &host;
    }
    return nullptr;
  }

 private:
  const Claim& claim_;
  const MayLeave& may_leave_;
  const Leavers& leavers_;
  Hosts::const_iterator at_, end_;
  Leavers::const_iterator next_;
};

// What an eviction among those costs at least: the cheapest of them alone. The sums of a gang's
// members can be less than any of theirs, so of a gang the number alone counts.
Cost LeastCost(const std::vector<const Claim*>& may_leave) {
  constexpr Cost kMaxCost = {SIZE_MAX, 0, 0, 0};
  Cost least = kMaxCost;
  for (const Claim* claim : may_leave) {
    const Cost cost = claim->gang.empty()
                          ? Cost{1, claim->ask.queue_priority, claim->sessions, -claim->placed}
                          : Cost{claim->gang_size, INT64_MIN, 0, INT64_MIN};
    if (cost < least) least = cost;
  }
  return least;
}

std::optional<Eviction> ForOne(const Hosts& hosts, const Leavers& leavers,
                               const MayLeave& may_leave, const Claim& claim) {
  std::optional<Eviction> best;
  Cost best_cost;
  Candidates candidates(hosts, leavers, may_leave, claim);
  OneHost chosen(claim);
  std::vector<const Claim*> who;
  while (const Host* host = candidates.Next(&who)) {
    if (who.empty() || (best && !(LeastCost(who) < best_cost))) continue;
    chosen.Look(*host, &who);
    if (!chosen.Choose(best ? best_cost.victims : SIZE_MAX)) continue;
    const std::vector<const Claim*> victims = chosen.victims();
    if (victims.empty()) continue;
    const Cost cost = CostOf(victims);
    if (best && !(cost < best_cost)) continue;
    best_cost = cost;
    best = Eviction{{{host->name, chosen.devices()}}, {}};
    for (const Claim* victim : victims) best->victims.push_back(victim->id);
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

std::optional<Eviction> ForGang(const Hosts& hosts, const Leavers& leavers,
                                const MayLeave& may_leave, const Claim& claim) {
  std::vector<Part> parts;
  Candidates candidates(hosts, leavers, may_leave, claim);
  OneHost chosen(claim);
  std::vector<const Claim*> who;
  while (const Host* host = candidates.Next(&who)) {
    chosen.Look(*host, &who);
    Part part{&host->name, {}, chosen.ChooseForMembers(claim.members())};
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
                                     const MayLeave& may_leave, const Claim& claim) {
  std::optional<Eviction> best = claim.members() == 1 ? ForOne(hosts, leavers, may_leave, claim)
                                                      : ForGang(hosts, leavers, may_leave, claim);
  if (best) std::sort(best->victims.begin(), best->victims.end());
  return best;
}

}  // namespace farcall::pool
