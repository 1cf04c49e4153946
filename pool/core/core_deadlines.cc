// SPDX-License-Identifier: Apache-2.0
// When claims run out, and what becomes of them then.
#include <algorithm>

#include "pool/core/core.h"

namespace farcall::pool {

void Core::Expire(Claim& claim) {
  bool lifetime_over =
      claim.ask.lifetime_ms != 0 && now_ >= After(claim.created, claim.ask.lifetime_ms);
  if (IsOver(claim.state)) {
    effects_->claims.erase(claim.id);
    effects_->erased_claims.emplace(claim.id, claim.tenant);
    auto key = by_key_.find({claim.tenant, claim.idempotency_key});
    if (key != by_key_.end() && key->second == claim.id) by_key_.erase(key);
    if (!claim.gang.empty()) {
      auto gang = gangs_.find(claim.gang);
      gang->second.erase(claim.member);
      if (gang->second.empty()) gangs_.erase(gang);
    }
    GroupOf(claim.ask).demand.Remove(claim.ask);
    claims_.erase(std::string(claim.id));
    return;
  }
  if (claim.state == ClaimState::kReleasing) return Finish(claim);
  if (lifetime_over) return End(claim, ClaimState::kExpired, "lifetime");
  switch (claim.state) {
    case ClaimState::kPending:
      return End(claim, ClaimState::kFailed, "queue_timeout");
    case ClaimState::kReserved:
      return End(claim, ClaimState::kFailed, "the host did not accept it in time", true);
    case ClaimState::kBound:
      return End(claim, ClaimState::kExpired, "never_used");
    case ClaimState::kPreempting:
      if (claim.park_by == 0 && MayPark(claim)) return AskToPark(claim);
      return End(claim, ClaimState::kFailed, "preempted by " + claim.preempted_by, true);
    default:
      return End(claim, ClaimState::kExpired, "idle");
  }
}

Ms Core::DeadlineOf(const Claim& claim) const {
  Ms at = kNever;
  Ms renewed = claim.renewed == 0 ? 0 : After(claim.renewed, timing_.renew);
  switch (claim.state) {
    case ClaimState::kPending:
      if (claim.is_early) return kNever;
      if (claim.ask.queue_ms != 0) at = After(claim.since, claim.ask.queue_ms);
      break;
    case ClaimState::kReserved:
      at = After(claim.since, timing_.reserved);
      break;
    case ClaimState::kBound:
      at = std::max(After(claim.since, timing_.never_used), renewed);
      break;
    case ClaimState::kActive:
    case ClaimState::kParked:
      break;
    case ClaimState::kPreempting:
      at = claim.park_by != 0 ? claim.park_by : After(claim.since, timing_.preempt_grace);
      break;
    case ClaimState::kIdle:
      at = claim.ask.on_disconnect_ms != 0 ? After(claim.since, claim.ask.on_disconnect_ms)
                                           : std::max(After(claim.since, timing_.renew), renewed);
      break;
    case ClaimState::kReleasing:
      return claim.granted_until;
    default:
      return After(claim.since, timing_.keep_over);
  }
  if (claim.ask.lifetime_ms != 0) at = std::min(at, After(claim.created, claim.ask.lifetime_ms));
  return at;
}

void Core::Arm(const Claim& claim) {
  auto arm = [this](const Claim& one, Ms at) {
    Disarm(one.id);
    if (at == kNever) return;
    deadlines_.emplace(at, one.id);
    armed_[one.id] = at;
  };
  auto is_bound = [](const Claim& one) {
    return one.state == ClaimState::kBound || one.state == ClaimState::kActive ||
           one.state == ClaimState::kIdle;
  };
  if (claim.gang.empty() || !is_bound(claim)) return arm(claim, DeadlineOf(claim));
  // A gang is in use as long as any of its members is.
  Ms last = 0;
  for (const Claim* member : MembersOf(claim))
    if (is_bound(*member)) last = std::max(last, DeadlineOf(*member));
  for (const Claim* member : MembersOf(claim))
    if (is_bound(*member)) arm(*member, last);
}

void Core::Disarm(const std::string& id) {
  auto armed = armed_.find(id);
  if (armed == armed_.end()) return;
  deadlines_.erase({armed->second, id});
  armed_.erase(armed);
}

}  // namespace farcall::pool
