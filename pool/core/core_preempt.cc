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

// True: others leave for the claim.
bool Core::Preempt(Claim& claim) {
  const bool may_any = !preemptible_.empty() &&
                       preemptible_.begin()->first < claim.ask.queue_priority &&
                       now_ >= settled_at_;
  if (!may_any) return false;
  if (auto kept = kept_.find(claim.id); kept != kept_.end() && !kept->second.leaving.empty())
    return true;
  std::optional<Eviction> found = FindEviction(
      hosts_, claims_, claim, [&](const Claim& other) { return MayLeave(other, claim); });
  if (!found) return false;
  Kept& kept = kept_[claim.id];
  kept = {found->place.host, found->place.devices, now_, {}, {}};
  for (const std::string& id : found->victims) {
    Claim& victim = claims_.at(id);
    victim.preempted_by = claim.id;
    kept.leaving.insert(id);
    Move(victim, ClaimState::kPreempting, "leaves for claim " + claim.id);
  }
  Say("claim_preempts", claim.id, kept.host, std::to_string(found->victims.size()) + " claim(s)");
  MarkKept();
  return true;
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
  for (const std::string& id : waiting) (void)Preempt(claims_.at(id));
}

// Whoever leaves for the claim stays.
void Core::Spare(const std::string& owner) {
  auto kept = kept_.find(owner);
  if (kept == kept_.end()) return;
  const std::set<std::string> leaving = std::exchange(kept->second.leaving, {});
  for (const std::string& id : leaving) {
    Claim& victim = claims_.at(id);
    victim.preempted_by.clear();
    MoveAsReported(victim, victim.sessions != 0 ? ClaimState::kActive : ClaimState::kIdle);
    Store(victim);
  }
}

}  // namespace farcall::pool
