// SPDX-License-Identifier: Apache-2.0
// Gangs: claims that have their places together. One of them stands in the queue for all. They are
// placed in one step, and none can be used until all hosts have accepted; if one has not in time,
// all give their places back and wait again. What ends one of them ends all.
#include <algorithm>
#include <cstdlib>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

bool HasEnded(const Claim& claim) {
  return IsOver(claim.state) || (claim.state == ClaimState::kReleasing && !claim.requeues);
}

bool IsComingBack(const Claim& claim) {
  return claim.state == ClaimState::kPending ||
         (claim.state == ClaimState::kReleasing && claim.requeues);
}

}  // namespace

std::vector<const Claim*> Core::FindGang(const std::string& gang) const {
  std::vector<const Claim*> members;
  if (auto found = gangs_.find(gang); found != gangs_.end())
    for (const auto& [number, claim] : found->second) members.push_back(claim);
  return members;
}

std::vector<const Claim*> Core::MembersOf(const Claim& claim) const {
  if (claim.gang.empty()) return {&claim};
  return FindGang(claim.gang);
}

std::vector<Claim*> Core::MembersOf(const Claim& claim) {
  if (claim.gang.empty()) return {&claims_.at(claim.id)};
  std::vector<Claim*> members;
  for (const auto& [number, member] : gangs_.at(claim.gang)) members.push_back(member);
  return members;
}

const Claim& Core::LeaderOf(const Claim& claim) const {
  return claim.gang.empty() ? claim : *gangs_.at(claim.gang).begin()->second;
}

Claim& Core::LeaderOf(const Claim& claim) {
  return claim.gang.empty() ? claims_.at(claim.id) : *gangs_.at(claim.gang).begin()->second;
}

bool Core::WaitsAsWhole(const Claim& claim) const {
  if (claim.gang.empty()) return WaitsForPlace(claim.state);
  const auto& members = gangs_.at(claim.gang);
  return members.size() == claim.gang_size && WaitsForPlace(claim.state) &&
         std::all_of(members.begin(), members.end(),
                     [&](const auto& one) { return one.second->state == claim.state; });
}

bool Core::IsGangUsed(const Claim& claim) const {
  const std::vector<const Claim*> members = MembersOf(claim);
  return std::any_of(members.begin(), members.end(), [](const Claim* one) {
    return one->state == ClaimState::kActive ||
           (one->state == ClaimState::kPreempting && one->sessions != 0) ||
           (one->state == ClaimState::kParked && one->sessions != 0);
  });
}

void Core::AcceptInGang(Claim& claim) {
  claim.is_accepted = true;
  const std::vector<Claim*> members = MembersOf(claim);
  for (const Claim* one : members)
    if (one->state != ClaimState::kReserved || !one->is_accepted) return;
  for (Claim* one : members) {
    one->placed = now_;
    MoveAsReported(*one, one->sessions != 0 ? ClaimState::kActive : ClaimState::kBound);
  }
}

void Core::FollowInGang(const Claim& claim) {
  if (claim.gang.empty() || following_ == claim.gang) return;
  const bool has_ended = HasEnded(claim), comes_back = IsComingBack(claim);
  if (!has_ended && !comes_back) return;
  following_ = claim.gang;
  std::string why = "member ";
  why += std::to_string(claim.member) + " of its gang: ";
  why += claim.reason.empty() ? std::string(ToText(claim.state)) : claim.reason;
  const ClaimState final_state = IsOver(claim.state) ? claim.state : claim.final_state;
  for (Claim* other : MembersOf(claim)) {
    if (other == &claim || HasEnded(*other)) continue;
    if (has_ended && other->state == ClaimState::kReleasing) {
      other->requeues = false;
      other->final_state = final_state;
      other->reason = why;
      Store(*other);
    } else if (has_ended) {
      End(*other, final_state, why);
    } else if (!IsComingBack(*other)) {
      End(*other, ClaimState::kFailed, why, true);
    }
  }
  following_.clear();
}

std::string Core::NeverFits(const Claim& claim) const {
  std::string what = "a gang of ";
  what += std::to_string(claim.members()) + " can never start: ";
  Pass pass = Examine(hosts_, claim);
  Claim other = claim;
  for (uint32_t i = 1; i < claim.ask.choices() && !pass.could_ever_fit; ++i) {
    other.ask.Choose(i);
    pass = Examine(hosts_, other);
  }
  // Without hosts nobody knows yet.
  if (pass.gpus != 0 && !pass.could_ever_fit)
    return what + "the pool's " + std::to_string(pass.gpus) +
           " GPUs, were they all free, have room for " + std::to_string(pass.members_ever) +
           " of its members";
  if (const Group& group = GroupOf(claim.ask).group;
      group.max_claims != 0 && claim.members() > group.max_claims)
    return what + "group '" + group.name + "' has at most " + std::to_string(group.max_claims) +
           " claims";
  if (!claim.ask.sizes.empty()) return "";  // limits that one of them exceeds another may not
  const Amounts amounts = AskedBy(claim);
  for (const ProjectState* at = FindProject(claim.ask.project); at != nullptr; at = at->parent) {
    const Project& project = at->project;
    if (std::string_view which = LimitsOf(project).Exceeded(amounts); !which.empty())
      return what + "it exceeds the limit of project '" + project.name + "' on " +
             std::string(which);
    if (project.max_claims != 0 && claim.members() > project.max_claims)
      return what + "project '" + project.name + "' has at most " +
             std::to_string(project.max_claims) + " claims";
  }
  const uint32_t of_tenant = projects_.at(claim.ask.project).project.tenant_max_claims;
  if (of_tenant != 0 && claim.members() > of_tenant)
    return what + "of one tenant, its project has at most " + std::to_string(of_tenant) + " claims";
  return "";
}

// What hosts have told is stored later than all else, and so may be known of some members alone.
void Core::LoadGangs(std::vector<Claim>* claims) {
  std::map<std::string, std::vector<Claim*>> gangs;
  for (Claim& claim : *claims)
    if (!claim.gang.empty()) gangs[claim.gang].push_back(&claim);
  for (auto& [name, members] : gangs) {
    const bool has_ended = members.size() != members.front()->gang_size ||
                           std::any_of(members.begin(), members.end(),
                                       [](const Claim* one) { return HasEnded(*one); });
    const bool comes_back = std::any_of(members.begin(), members.end(),
                                        [](const Claim* one) { return IsComingBack(*one); });
    const bool is_whole = std::any_of(members.begin(), members.end(), [](const Claim* one) {
      return IsGranted(one->state) && one->state != ClaimState::kReserved;
    });
    const bool waits = std::all_of(members.begin(), members.end(), [](const Claim* one) {
      return one->state == ClaimState::kPending;
    });
    for (Claim* one : members) {
      if (HasEnded(*one)) continue;
      if (has_ended && one->state == ClaimState::kPending) {
        one->state = ClaimState::kFailed;
        one->reason = "its gang has ended";
      } else if (has_ended || (comes_back && !waits && HasHost(one->state))) {
        one->state = ClaimState::kReleasing;
        one->final_state = ClaimState::kFailed;
        one->requeues = !has_ended;
        one->reason = has_ended ? "its gang has ended" : "its gang waits again";
      } else if (is_whole && one->state == ClaimState::kReserved) {
        one->state = ClaimState::kBound;
      }
    }
  }
}

// What Broken adds: of each gang all members have been bound, or none.
std::string Core::BrokenGang() const {
  for (const auto& [name, members] : gangs_) {
    if (members.empty()) return "gang " + name + " has no members";
    size_t bound = 0, back = 0, ended = 0, reserved = 0, parked = 0;
    for (const auto& [number, claim] : members) {
      if (claims_.count(claim->id) == 0 || &claims_.at(claim->id) != claim)
        return "gang " + name + " has a member that is not there";
      if (HasEnded(*claim))
        ++ended;
      else if (IsComingBack(*claim))
        ++back;
      else if (claim->state == ClaimState::kReserved)
        ++reserved;
      else if (claim->state == ClaimState::kParked)
        ++parked;
      else
        ++bound;
    }
    const size_t size = members.begin()->second->gang_size;
    if (ended == members.size()) continue;
    if (members.size() != size ||
        (bound != size && reserved != size && back != size && parked != size))
      return "gang " + name + " of " + std::to_string(size) + ": " + std::to_string(bound) +
             " bound, " + std::to_string(reserved) + " reserved, " + std::to_string(parked) +
             " parked, " + std::to_string(back) + " wait, " + std::to_string(ended) + " ended";
  }
  return "";
}

}  // namespace farcall::pool
