// SPDX-License-Identifier: Apache-2.0
// Preemption: a claim that fits nowhere may have the place of preemptible claims of a lower queue
// priority. They are warned, go on until the grace is over, and are queued again. Their place is
// kept for the claim meanwhile; if it goes elsewhere, or away, they stay.
#include <algorithm>

#include "pool/core/core.h"
#include "pool/core/placing/preempt.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxLooks = 8;  // at claims, at each turn of the clock

}  // namespace

bool Core::IsUsed(const Claim& claim) {
  return !claim.before && (claim.state == ClaimState::kBound ||
                           claim.state == ClaimState::kActive || claim.state == ClaimState::kIdle);
}

// A gang leaves as a whole.
bool Core::MayLeave(const Claim& claim, const Claim& whom) const {
  if (!claim.ask.preemptible || claim.ask.queue_priority >= whom.ask.queue_priority) return false;
  auto may = [this](const Claim* one) {
    return IsUsed(*one) && now_ - one->placed >= timing_.min_run;
  };
  if (claim.gang.empty()) return may(&claim);
  const std::vector<const Claim*> members = MembersOf(claim);
  return std::all_of(members.begin(), members.end(), may);
}

void Core::CountPreemptible(const Claim& claim, const std::string& host, bool held) {
  if (!claim.ask.preemptible) return;
  std::vector<const Claim*>& there = preemptible_on_[host];
  if (held)
    there.push_back(&claim);
  else
    there.erase(std::find(there.begin(), there.end(), &claim));
  if (there.empty()) preemptible_on_.erase(host);
  auto& claims = preemptible_[claim.ask.queue_priority];
  if (held)
    claims[claim.id] = &claim;
  else
    claims.erase(claim.id);
  if (claims.empty()) preemptible_.erase(claim.ask.queue_priority);
}

// Claims that leave the place that is kept for this one.
std::vector<std::string> Core::LeavingFor(const std::string& owner) const {
  auto leaving = leaving_.find(owner);
  if (leaving == leaving_.end()) return {};
  return {leaving->second.begin(), leaving->second.end()};
}

// For the first of its alternatives for which anybody may leave.
void Core::Preempt(const Claim& claim) {
  // Who is parked waits for its own place, which others leave when they end.
  if (claim.state == ClaimState::kParked) return;
  if (preemptible_.empty() || now_ < settled_at_ || !LeavingFor(claim.id).empty()) return;
  const uint32_t before = claim.ask.choice;
  for (uint32_t choice = 0; choice < claim.ask.choices(); ++choice) {
    Choose(claim, choice);
    if (PreemptBy(claim)) return;
  }
  Choose(claim, before);
}

bool Core::PreemptBy(const Claim& claim) {
  const bool by_priority = preemptible_.begin()->first < claim.ask.queue_priority;
  std::set<const Claim*> reclaimable;
  if (MayReclaim(claim)) reclaimable = Reclaimable(claim);
  if ((!by_priority && reclaimable.empty()) || !LimitOf(claim, AskedBy(claim)).empty())
    return false;
  Claim asks = claim;
  Shut(&asks, /*by_deserved=*/!by_priority);
  std::optional<Eviction> found = FindEviction(
      hosts_, preemptible_on_,
      [&](const Claim& other) {
        return MayLeave(other, claim) || (!reclaimable.empty() && reclaimable.count(&other) != 0);
      },
      asks);
  if (!found || !LimitAt(claim, found->places).empty()) return false;
  // What a claim for TFLOPS takes of its quota is known only now.
  if (claim.ask.gflops != 0 && !IsDeservedAt(claim, found->places) &&
      std::any_of(found->victims.begin(), found->victims.end(),
                  [&](const std::string& id) { return !MayLeave(claims_.at(id), claim); }))
    return false;
  kept_[claim.id] = {found->places, now_, {}};
  std::set<const Claim*> victims;
  for (const std::string& id : found->victims)
    for (const Claim* member : MembersOf(claims_.at(id))) victims.insert(member);
  std::map<std::string, bool> leave;  // and whether it is reclaimed
  for (const Claim* victim : victims) leave[victim->id] = !MayLeave(*victim, claim);
  for (const auto& [id, is_reclaimed] : leave) {
    Claim& victim = claims_.at(id);
    SetLeaving(victim, claim.id);
    victim.is_reclaimed = is_reclaimed;
    Move(victim, ClaimState::kPreempting, "leaves for claim " + claim.id);
  }
  Say("claim_preempts", claim.id, found->places.front().host,
      std::to_string(leave.size()) + " claim(s)");
  MarkKept();
  return true;
}

void Core::PreemptLater() {
  if (preemptible_.empty() || pending_count_ == 0) return;
  // The first of each line: what others may not have leave for it, they may not for those behind.
  std::map<Rank, std::string> waiting;
  for (const auto& [name, shape] : shapes_)
    for (const auto& [key, line] : shape.lines)
      for (const auto& [rank, id] : line.claims) {
        if (kept_.count(id) != 0) continue;
        const Claim& claim = claims_.at(id);
        if (claim.state == ClaimState::kParked) break;
        if (rank.queue_priority > preemptible_.begin()->first || MayReclaim(claim))
          waiting[rank] = id;
        break;
      }
  size_t looks = 0;
  for (const auto& [rank, id] : waiting) {
    if (rank < looked_at_ || rank == looked_at_) continue;
    looked_at_ = rank;
    Preempt(claims_.at(id));
    if (++looks == kMaxLooks) return;
  }
  looked_at_ = Rank{INT32_MAX, 0};  // from the first again
}

// "": it stays.
void Core::SetLeaving(Claim& victim, const std::string& owner) {
  if (auto leaving = leaving_.find(victim.preempted_by); leaving != leaving_.end()) {
    leaving->second.erase(victim.id);
    if (leaving->second.empty()) leaving_.erase(leaving);
  }
  victim.preempted_by = owner;
  if (!owner.empty()) leaving_[owner].insert(victim.id);
}

// Whoever leaves for the claim stays.
void Core::Spare(const std::string& owner) {
  for (const std::string& id : LeavingFor(owner)) {
    Claim& victim = claims_.at(id);
    SetLeaving(victim, "");
    if (victim.park_by != 0) beats_.insert(victim.host);
    MoveAsReported(victim, victim.sessions != 0 ? ClaimState::kActive : ClaimState::kIdle);
    Store(victim);
  }
}

// What Broken adds.
std::string Core::BrokenPreemption() const {
  for (const auto& [id, claim] : claims_) {
    if (claim.state != ClaimState::kPreempting) continue;
    auto kept = kept_.find(claim.preempted_by);
    const std::vector<const Claim*> leaving = MembersOf(claim);
    if (kept == kept_.end() || std::none_of(leaving.begin(), leaving.end(), [&](const Claim* one) {
          return kept->second.IsOn(one->host);
        }))
      return "claim " + id + " leaves for nobody who waits for its place";
    if (!claim.ask.preemptible ||
        (!claim.is_reclaimed &&
         claim.ask.queue_priority >= claims_.at(claim.preempted_by).ask.queue_priority))
      return "claim " + id + " leaves for " + claim.preempted_by + ", and need not";
  }
  size_t preemptible = 0;
  for (const auto& [id, claim] : claims_) {
    if (!claim.ask.preemptible || !HoldsGpus(claim)) continue;
    ++preemptible;
    auto on = preemptible_on_.find(claim.host);
    if (on == preemptible_on_.end() ||
        std::count(on->second.begin(), on->second.end(), &claim) != 1)
      return "claim " + id + " is preemptible, and its host does not know";
  }
  for (const auto& [host, claims] : preemptible_on_) preemptible -= claims.size();
  if (preemptible != 0) return "hosts know preemptible claims that have no GPUs";
  return "";
}

}  // namespace farcall::pool
