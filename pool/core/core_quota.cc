// SPDX-License-Identifier: Apache-2.0
// Quotas: what a project never exceeds, what it deserves, and from whom it may have that back.
//
// A claim may be reclaimed for another whose project stays within its deserved quota with it, from
// projects above theirs, and of each only the youngest preemptible claims by which it is above. So
// a claim that came by reclaiming is within a quota, a claim that left for it fits into its own
// project's quota no more, and neither can take the other's place again.
#include <algorithm>
#include <tuple>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr Ms kSweepUsage = 60'000;
constexpr double kNoUsageMs = 1e-3;

std::string Text(const std::string& project, std::string_view what) {
  return "the limit of project '" + project + "' on " + std::string(what);
}

bool IsOfModel(const Claim& claim, const Host& host, const std::string& model) {
  return std::any_of(claim.devices.begin(), claim.devices.end(), [&](uint32_t device) {
    return device < host.gpus.size() && host.gpus[device].name.find(model) != std::string::npos;
  });
}

Amounts Sum(Amounts a, const Amounts& b) {
  return a += b;
}

bool HasQuota(const Project& project) {
  return !project.deserved.is_empty() ||
         std::any_of(project.models.begin(), project.models.end(),
                     [](const ModelBounds& model) { return !model.deserved.is_empty(); });
}

// Whether `used` is above what the project deserves; one that deserves nothing certain always is.
bool IsAbove(const ProjectState& state, const Amounts& used) {
  if (!HasQuota(state.project)) return true;
  if (!state.project.deserved.Exceeded(used).empty()) return true;
  for (size_t i = 0; i < state.project.models.size(); ++i)
    if (!state.project.models[i].deserved.Exceeded(state.of_models[i]).empty()) return true;
  return false;
}

}  // namespace

// What it may have in all: no more than it deserves where nothing above that is its.
Bounds Core::LimitsOf(const Project& project) {
  Bounds limits = project.limit;
  if (project.over_quota_weight != 0u) return limits;
  auto lower = [](std::optional<uint64_t>* limit, const std::optional<uint64_t>& deserved) {
    if (deserved) *limit = std::min(limit->value_or(UINT64_MAX), *deserved);
  };
  lower(&limits.memory_bytes, project.deserved.memory_bytes);
  lower(&limits.share_milli, project.deserved.share_milli);
  lower(&limits.gpus, project.deserved.gpus);
  return limits;
}

Amounts Core::AskedBy(const Claim& claim) {
  const Ask& ask = claim.ask;
  const uint64_t devices = uint64_t{ask.count} * claim.members();
  Amounts amounts;
  amounts.memory_bytes = ask.memory_bytes * devices;
  const bool is_whole = ask.memory_bytes == 0;
  // Of one for TFLOPS, what is known: AmountsAt has the rest.
  const uint32_t share_milli = claim.state == ClaimState::kParked && claim.gang.empty()
                                   ? claim.share_milli
                                   : ask.share_milli;
  amounts.share_milli = (is_whole ? kWholeMilli : share_milli) * devices;
  amounts.gpus = is_whole ? devices : 0;
  amounts.net_bytes_per_s = ask.net_bytes_per_s * claim.members();
  amounts.device_milli = amounts.share_milli;
  return amounts;
}

Amounts Core::AmountsAt(const Claim& claim, const GangPlaces& places) const {
  Amounts amounts;
  ForEachAt(claim, places,
            [&](const Claim& there, const Host& host) { amounts += AmountsOf(there, host); });
  return amounts;
}

// Each member as it would be at its place.
void Core::ForEachAt(const Claim& claim, const GangPlaces& places,
                     const std::function<void(const Claim&, const Host&)>& call) const {
  std::vector<const Claim*> parked;  // they have their shares already
  if (claim.state == ClaimState::kParked) parked = MembersOf(claim);
  for (size_t i = 0; i < places.size(); ++i) {
    const Host& host = hosts_.at(places[i].host);
    Claim there = claim;
    there.devices = places[i].devices;
    there.memory_bytes = BytesOf(claim.ask, host, there.devices);
    there.share_milli =
        i < parked.size() ? parked[i]->share_milli : ShareOn(host, there.devices, claim.ask);
    call(there, host);
  }
}

std::string Core::LimitOf(const Claim& claim, const Amounts& amounts) const {
  if (std::string of_group = GroupLimitOf(claim); !of_group.empty()) return of_group;
  const ProjectState& own = projects_.at(claim.ask.project);
  if (own.project.tenant_max_claims != 0)
    if (auto part = own.tenants.find(claim.tenant);
        part != own.tenants.end() &&
        part->second.held + claim.members() > own.project.tenant_max_claims)
      return Text(own.project.name,
                  "claims of one tenant, " + std::to_string(own.project.tenant_max_claims));
  for (const ProjectState* at = &own; at != nullptr; at = at->parent) {
    if (at->project.max_claims != 0 && at->held + claim.members() > at->project.max_claims)
      return Text(at->project.name, "claims, " + std::to_string(at->project.max_claims));
    const std::string_view which = LimitsOf(at->project).Exceeded(Sum(at->used, amounts));
    if (!which.empty()) return Text(at->project.name, which);
  }
  return "";
}

std::string Core::GrowthLimit(const Claim& claim, const Ask& ask, uint64_t memory_bytes) const {
  const Host& host = hosts_.at(claim.host);
  Claim grown = claim;
  grown.ask = ask;
  grown.memory_bytes = memory_bytes;
  grown.share_milli = ChangedShare(claim, ask);
  const Amounts now = AmountsOf(claim, host), then = AmountsOf(grown, host);
  auto is_more = [&](uint64_t Amounts::*of) { return then.*of > now.*of; };
  if (!is_more(&Amounts::memory_bytes) && !is_more(&Amounts::share_milli) &&
      !is_more(&Amounts::gpus))
    return "";
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent) {
    auto exceeded = [&](const Bounds& limit, Amounts used) {
      used -= now;
      return limit.Exceeded(used += then);
    };
    const std::string_view which = exceeded(LimitsOf(at->project), at->used);
    if (!which.empty()) return Text(at->project.name, which);
    // As if all of its GPUs were of the model: a claim on several models is rare.
    for (size_t i = 0; i < at->project.models.size(); ++i)
      if (const ModelBounds& model = at->project.models[i];
          IsOfModel(claim, host, model.model) && !exceeded(model.limit, at->of_models[i]).empty())
        return Text(at->project.name, "model " + model.model);
  }
  return "";
}

// Models of which one of its projects would have more than its limit, or than it deserves.
std::vector<std::string> Core::ShutModels(const Claim& claim, bool by_deserved) const {
  std::vector<std::string> shut;
  const Amounts amounts = AskedBy(claim);
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent)
    for (size_t i = 0; i < at->project.models.size(); ++i) {
      const ModelBounds& model = at->project.models[i];
      const Bounds& bounds = by_deserved ? model.deserved : model.limit;
      if (!bounds.Exceeded(Sum(at->of_models[i], amounts)).empty()) shut.push_back(model.model);
    }
  return shut;
}

bool Core::IsInQuota(const ProjectState& state, const Amounts& all) {
  const Bounds& deserved = state.project.deserved;
  auto is_below = [](const std::optional<uint64_t>& bound, uint64_t used) {
    return !bound || used < *bound;
  };
  return HasQuota(state.project) && is_below(deserved.memory_bytes, all.memory_bytes) &&
         is_below(deserved.share_milli, all.share_milli) && is_below(deserved.gpus, all.gpus) &&
         !IsAbove(state, all);
}

Turns::Value Core::ValueOf(const Sequencer& sequencer, const ProjectState& project,
                           const TenantPart* tenant) const {
  return ValueWith(sequencer, project, tenant, {});
}

// As if it used so much more.
Turns::Value Core::ValueWith(const Sequencer& sequencer, const ProjectState& project,
                             const TenantPart* tenant, const Amounts& more) const {
  const UseState& use = tenant != nullptr ? static_cast<const UseState&>(*tenant) : project;
  Turns::Value value;
  value.is_over = true;
  Standing standing;
  if (tenant == nullptr) {
    value.is_over = !IsInQuota(project, Sum(use.used, more));
    standing.weight = project.project.weight;
    if (value.is_over && project.project.over_quota_weight)
      standing.weight = std::max(*project.project.over_quota_weight, 1u);
  }
  if (!sequencer.is_by_project()) return value;
  standing.used = Sum(use.used, more);
  const double share = capacity_.device_milli == 0
                           ? 0
                           : static_cast<double>(use.used.device_milli) /
                                 static_cast<double>(capacity_.device_milli);
  standing.usage_ms = Decayed(use.usage_ms, share, now_ - use.usage_at, half_life_);
  value.value = sequencer.ValueOf(standing, capacity_);
  return value;
}

// Up to now, before what is used, or what there is, becomes another.
void Core::Accrue(UseState* use) {
  if (use->usage_at == now_) return;
  const double share = capacity_.device_milli == 0
                           ? 0
                           : static_cast<double>(use->used.device_milli) /
                                 static_cast<double>(capacity_.device_milli);
  use->usage_ms = Decayed(use->usage_ms, share, now_ - use->usage_at, half_life_);
  use->usage_at = now_;
}

void Core::CountCapacity() {
  for (auto& [name, state] : projects_) {
    Accrue(&state);
    for (auto& [tenant, part] : state.tenants) Accrue(&part);
  }
  capacity_ = {};
  for (const auto& [name, host] : hosts_) {
    for (const Gpu& gpu : host.gpus) {
      capacity_.memory_bytes += gpu.lendable_bytes();
      capacity_.share_milli += kWholeMilli;
      capacity_.gpus += 1;
      capacity_.device_milli += kWholeMilli;
    }
    capacity_.net_bytes_per_s += host.net_ceiling;
  }
}

// Once in a while what is remembered is stored, and forgotten where nothing is left of it.
void Core::SweepUsage() {
  if (now_ - usage_swept_ < kSweepUsage) return;
  usage_swept_ = now_;
  const bool is_stored = RemembersUsage();
  for (auto& [name, state] : projects_) {
    Accrue(&state);
    for (auto part = state.tenants.begin(); part != state.tenants.end();) {
      Accrue(&part->second);
      const bool is_nothing = part->second.is_idle() && part->second.usage_ms < kNoUsageMs;
      part = is_nothing ? state.tenants.erase(part) : std::next(part);
    }
    if (state.usage_ms >= kNoUsageMs && is_stored) effects_->projects.insert(name);
  }
}

bool Core::MayReclaim(const Claim& claim) const {
  const Amounts amounts = AskedBy(claim);
  bool has_quota = false;
  for (const ProjectState* at = &projects_.at(claim.ask.project); at != nullptr; at = at->parent) {
    if (!HasQuota(at->project)) continue;
    has_quota = true;
    if (!at->project.deserved.Exceeded(Sum(at->used, amounts)).empty()) return false;
  }
  return has_quota;
}

std::set<const Claim*> Core::Reclaimable(const Claim& claim) const {
  // The youngest first: by them a project came above its quota.
  std::vector<const Claim*> candidates;
  for (const auto& [priority, claims] : preemptible_)
    for (const auto& [id, other] : claims)
      if (priority <= claim.ask.queue_priority && other->member == 0 &&
          !IsWithin(claim.ask.project, other->ask.project) && IsUsed(*other))
        candidates.push_back(other);
  std::sort(candidates.begin(), candidates.end(), [](const Claim* a, const Claim* b) {
    return std::tie(b->placed, b->order) < std::tie(a->placed, a->order);
  });
  // A claim of a project above the claimant's own is outside of what that one deserves.
  std::map<const ProjectState*, Amounts> left;
  std::set<const Claim*> may;
  auto consider = [&](const Claim* other) {
    Amounts amounts;
    for (const Claim* member : MembersOf(*other))
      amounts += AmountsOf(*member, hosts_.at(member->host));
    std::vector<const ProjectState*> levels;
    for (const ProjectState* at = &projects_.at(other->ask.project); at != nullptr;
         at = at->parent) {
      if (IsWithin(claim.ask.project, at->project.name)) break;  // common to both
      if (!IsAbove(*at, left.try_emplace(at, at->used).first->second)) return;
      levels.push_back(at);
    }
    if (levels.empty()) return;
    for (const ProjectState* at : levels) left.at(at) -= amounts;
    if (now_ - other->placed < timing_.min_run) return;
    for (const Claim* member : MembersOf(*other)) may.insert(member);
  };
  for (const Claim* other : candidates) consider(other);
  return may;
}

}  // namespace farcall::pool
