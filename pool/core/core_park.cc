// SPDX-License-Identifier: Apache-2.0
// Parking: a claim whose place another is to have leaves its GPUs for its host's memory, where the
// host can, instead of ending. It keeps its sessions, which wait, its place in the queue and its
// epoch, and goes on when its GPUs have room for it. tests/model/pool_park.pml is the model of it.
#include <algorithm>

#include "pool/core/core.h"

namespace farcall::pool {

bool Core::MayPark(const Claim& claim) const {
  auto host = hosts_.find(claim.host);
  if (claim.sessions == 0 || host == hosts_.end() || !host->second.is_connected) return false;
  uint64_t taken = claim.slab_bytes();
  for (const std::string& id : host->second.claims)
    if (const Claim& other = claims_.at(id);
        &other != &claim && (other.is_parked || other.park_by != 0))
      taken += other.slab_bytes();
  return taken <= host->second.park_bytes;
}

void Core::AskToPark(Claim& claim) {
  claim.park_by = now_ + timing_.park;
  Say("claim_parking", claim.id, claim.host, claim.reason);
  NotifyHostOf(claim);
  Arm(claim);
  beats_.insert(claim.host);
}

void Core::OnReportedParking(Claim& claim, const ReportedClaim& told) {
  const bool is_used = claim.state == ClaimState::kActive || claim.state == ClaimState::kIdle;
  if (claim.state == ClaimState::kPreempting && claim.park_by != 0) {
    if (!told.park_refused.empty())
      return End(claim, ClaimState::kFailed,
                 "preempted by " + claim.preempted_by + ", and not parked: " + told.park_refused,
                 true);
    if (!told.is_parked) return;
    claim.is_out = true;
    const std::vector<Claim*> members = MembersOf(claim);
    if (!std::all_of(members.begin(), members.end(), [](const Claim* one) { return one->is_out; }))
      return;
    const std::string why = "preempted by " + claim.preempted_by;
    for (Claim* one : members) Move(*one, ClaimState::kParked, why);
  } else if (claim.state == ClaimState::kParked) {
    const std::vector<Claim*> members = MembersOf(claim);
    if (std::any_of(members.begin(), members.end(),
                    [](const Claim* one) { return one->sessions != 0; }))
      return;
    if (claim.ask.on_disconnect_ms != 0) return End(claim, ClaimState::kExpired, "idle");
    End(claim, ClaimState::kFailed, "its sessions ended while it was parked", true);
  } else if (is_used && told.is_parked && !told.park_refused.empty()) {
    // Its host has no room after all.
    if (!claim.gang.empty()) return End(claim, ClaimState::kFailed, told.park_refused, true);
    claim.avoid.insert(claim.host);
    avoiding_[claim.id] = now_ + timing_.refused_pause;
    Move(claim, ClaimState::kParked, told.park_refused);
  }
}

std::optional<GangPlaces> Core::OwnPlaces(const Claim& claim) const {
  GangPlaces places;
  for (const Claim* one : MembersOf(claim)) {
    auto found = hosts_.find(one->host);
    if (found == hosts_.end() || claim.avoid.count(one->host) != 0) return std::nullopt;
    const Host& host = found->second;
    // A host that drains lets what it has end in its own time.
    if (host.state != HostState::kReady && host.state != HostState::kDraining) return std::nullopt;
    Claim asks = *one;
    asks.turn = claim.turn;
    asks.shut_models = claim.shut_models;
    for (uint32_t device : one->devices)
      if (device >= host.gpus.size() || JudgeGpu(host.gpus[device], asks) != Filter::kNone)
        return std::nullopt;
    places.push_back({one->host, one->devices});
  }
  return places;
}

void Core::Resume(Claim& claim) {
  for (Claim* one : MembersOf(claim)) {
    one->placed = now_;
    Move(*one, one->sessions != 0 ? ClaimState::kActive : ClaimState::kIdle);
    for (auto& [owner, kept] : kept_)
      if (kept.IsOn(one->host)) kept.guests.insert(one->id);
    beats_.insert(one->host);
  }
  if (!kept_.empty()) MarkKept();
}

std::string Core::WhyParked(const Claim& claim) const {
  std::string why = "parked on " + claim.host + ", " + std::to_string(claim.slab_bytes() >> 20) +
                    " MiB of that host's memory at most";
  if (!claim.reason.empty()) why += " (" + claim.reason + ")";
  return why +
         "; its programs wait, and go on when its GPU(s) have room: their contexts stay there, so "
         "no other GPU of the host will do";
}

}  // namespace farcall::pool
