// SPDX-License-Identifier: Apache-2.0
// Preemption: a claim that fits nowhere may have the place of preemptible claims of a lower queue
// priority. They are warned, go on until the grace is over, and are queued again. Their place is
// kept for the claim meanwhile; if it goes elsewhere, or away, they stay.
#include "pool/core/core.h"
#include "pool/core/preempt.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxLooks = 64;  // at claims, each time that somebody may have run for long enough

}  // namespace

bool Core::MayLeave(const Claim& claim, const Claim& whom) const {
  const bool is_used = claim.state == ClaimState::kBound || claim.state == ClaimState::kActive ||
                       claim.state == ClaimState::kIdle;
  return is_used && claim.ask.preemptible && !claim.before &&
         claim.ask.queue_priority < whom.ask.queue_priority &&
         now_ - claim.placed >= timing_.min_run;
}

void Core::CountPreemptible(const Claim& claim, bool held) {
  if (!claim.ask.preemptible) return;
  size_t& count = preemptible_[claim.ask.queue_priority];
  count += held ? 1 : size_t{0} - 1;
  if (count == 0) preemptible_.erase(claim.ask.queue_priority);
}

// Claims that leave the place that is kept for this one.
std::vector<std::string> Core::LeavingFor(const std::string& owner) const {
  std::vector<std::string> leaving;
  auto kept = kept_.find(owner);
  if (kept == kept_.end()) return leaving;
  auto host = hosts_.find(kept->second.host);
  if (host == hosts_.end()) return leaving;
  for (const std::string& id : host->second.claims)
    if (claims_.at(id).preempted_by == owner) leaving.push_back(id);
  return leaving;
}

void Core::Preempt(const Claim& claim) {
  const bool may_any = !preemptible_.empty() &&
                       preemptible_.begin()->first < claim.ask.queue_priority &&
                       now_ >= settled_at_;
  if (!may_any || !LeavingFor(claim.id).empty()) return;
  std::optional<Eviction> found = FindEviction(
      hosts_, claims_, claim, [&](const Claim& other) { return MayLeave(other, claim); });
  if (!found) return;
  kept_[claim.id] = {found->place.host, found->place.devices, now_, {}};
  for (const std::string& id : found->victims) {
    Claim& victim = claims_.at(id);
    victim.preempted_by = claim.id;
    Move(victim, ClaimState::kPreempting, "leaves for claim " + claim.id);
  }
  Say("claim_preempts", claim.id, found->place.host,
      std::to_string(found->victims.size()) + " claim(s)");
  MarkKept();
}

void Core::PreemptLater() {
  if (preemptible_.empty() || pending_count_ == 0) return;
  std::vector<std::string> waiting;
  for (const auto& [name, shape] : shapes_) {
    for (const auto& [rank, id] : shape.queue) {
      if (rank.queue_priority <= preemptible_.begin()->first || waiting.size() == kMaxLooks) break;
      waiting.push_back(id);
    }
  }
  for (const std::string& id : waiting) Preempt(claims_.at(id));
}

// Whoever leaves for the claim stays.
void Core::Spare(const std::string& owner) {
  for (const std::string& id : LeavingFor(owner)) {
    Claim& victim = claims_.at(id);
    victim.preempted_by.clear();
    MoveAsReported(victim, victim.sessions != 0 ? ClaimState::kActive : ClaimState::kIdle);
    Store(victim);
  }
}

}  // namespace farcall::pool
