// SPDX-License-Identifier: Apache-2.0
// Changes of running claims: proposed to the host, counted as the larger of both until it has said
// yes or no.
#include <algorithm>
#include <tuple>

#include "pool/core/core.h"
#include "settings/byte_rate.h"

namespace farcall::pool {

namespace {

bool SameQuota(const Ask& a, const Ask& b) {
  auto quota = [](const Ask& ask) {
    return std::tie(ask.memory_bytes, ask.share_milli, ask.limit_milli, ask.priority, ask.seats,
                    ask.net_bytes_per_s);
  };
  return quota(a) == quota(b);
}

Ask Changed(Ask ask, const ChangeClaim& change) {
  ask.memory_bytes = change.memory_bytes.value_or(ask.memory_bytes);
  ask.share_milli = change.share_milli.value_or(ask.share_milli);
  ask.limit_milli = change.limit_milli.value_or(ask.limit_milli);
  ask.priority = change.priority.value_or(ask.priority);
  ask.seats = change.seats.value_or(ask.seats);
  ask.net_bytes_per_s = change.net_bytes_per_s.value_or(ask.net_bytes_per_s);
  ask.queue_priority = change.queue_priority.value_or(ask.queue_priority);
  ask.preemptible = change.preemptible.value_or(ask.preemptible);
  ask.lifetime_ms = change.lifetime_ms.value_or(ask.lifetime_ms);
  return ask;
}

}  // namespace

void Core::On(const ChangeClaim& event) {
  Claim* claim = Named(event.id, event.by, event.if_revision);
  if (claim == nullptr) return;
  if (IsOver(claim->state) || claim->state == ClaimState::kReleasing)
    return Refuse(RefusalCode::kConflict,
                  "claim '" + claim->id + "' is " + std::string(ToText(claim->state)), "id");
  Ask ask = Changed(claim->ask, event);
  if (!ask.sizes.empty() && (event.memory_bytes || event.share_milli)) {
    if (WaitsForPlace(claim->state))
      return Refuse(RefusalCode::kConflict,
                    "claim '" + claim->id + "' waits with alternatives, each of its own size", "id",
                    "release it and ask anew");
    ask.sizes.clear();  // from now on it is what it is changed to
    ask.choice = 0;
  }
  if (ask.gflops != 0 && (event.share_milli || event.limit_milli))
    return Refuse(RefusalCode::kConflict,
                  "claim '" + claim->id + "' asks for " + TflopsText(ask.gflops) +
                      ": its share follows from its GPU",
                  "share_milli", "release it and ask anew");
  if (auto [wrong, field] = FaultOf(ask); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, field);
  if (ask == claim->ask) return;
  if ((claim->state == ClaimState::kParked || claim->park_by != 0) && !SameQuota(ask, claim->ask))
    return Refuse(RefusalCode::kConflict,
                  "claim '" + claim->id + "' is parked: its size stays until it runs again", "id");
  if (HoldsGpus(*claim)) {
    Claim changed = *claim;
    changed.ask = ask;
    SetEnds(changed);
    if (std::string why = EndsTooLate(*claim, changed.ends); !why.empty())
      return Refuse(RefusalCode::kConflict, "lifetime: " + why, "lifetime_ms",
                    "farcall pool reservation list shows what is reserved");
  }
  if (!claim->gang.empty() && !SameQuota(ask, claim->ask))
    return Refuse(RefusalCode::kConflict,
                  "claim '" + claim->id + "' is of gang '" + claim->gang +
                      "', whose members keep the size that they were asked for with",
                  "id", "release the gang and ask for another");
  if (claim->state != ClaimState::kPending && !SameQuota(ask, claim->ask))
    return Propose(*claim, ask);
  for (Claim* member : MembersOf(*claim)) ChangeAsk(*member, ask);
}

void Core::SetAsk(Claim& claim, const Ask& ask) {
  Demand& demand = GroupOf(claim.ask).demand;
  demand.Remove(claim.ask);
  claim.ask = ask;
  demand.Add(claim.ask);
  SetEnds(claim);
}

void Core::ChangeAsk(Claim& claim, Ask ask) {
  const bool waits = WaitsForPlace(claim.state);
  if (waits) {
    Dequeue(claim);
    DropKept(LeaderOf(claim).id, false);
  }
  // One that still holds GPUs is counted by what it chose; one that waits for a place that is kept
  // for it no more has none chosen.
  if (!ask.sizes.empty()) ask.Choose(claim.ask.choice);
  if (claim.state == ClaimState::kPreempting) Spare(claim.preempted_by);  // judged anew
  const bool is_held = HoldsGpus(claim);
  if (is_held) CountPreemptible(claim, claim.host, false);
  SetAsk(claim, ask);
  if (is_held) CountPreemptible(claim, claim.host, true);
  if (waits) {
    claim.avoid.clear();  // who refused that may take this
    Enqueue(claim);
  }
  Store(claim);
  Arm(claim);
}

uint64_t Core::BytesOf(const Ask& ask, const Host& host,
                       const std::vector<uint32_t>& devices) const {
  if (ask.memory_bytes != 0) return ask.memory_bytes;
  uint64_t least = UINT64_MAX;  // all that each of them has
  for (uint32_t device : devices) least = std::min(least, host.gpus[device].memory_bytes);
  return least;
}

std::string Core::NoRoom(const Claim& claim, const Ask& ask, uint64_t memory_bytes) const {
  const Host& host = hosts_.at(claim.host);
  const uint32_t share_milli = ChangedShare(claim, ask);
  if (!AllowsNet(host, ask))
    return "network " + ByteRateText(ask.net_bytes_per_s) + ": " + host.name + " allows " +
           ByteRateText(host.net_ceiling);
  auto text = [](uint64_t number) { return std::to_string(number); };
  for (uint32_t device : claim.devices) {
    const Gpu& gpu = host.gpus[device];
    std::string where = host.name + ":" + text(device);
    if (ask.memory_bytes == 0 && gpu.claims > 1) return where + " is shared with other claims";
    uint64_t bytes = std::min(gpu.memory_bytes, gpu.free_bytes() + claim.held_bytes());
    if (memory_bytes > bytes)
      return "memory " + text(memory_bytes) + ": " + where + " has " + text(bytes) +
             " bytes for this claim";
    for (const auto& [owner, kept] : kept_)
      if (kept.IsOn(host.name) && kept.guests.count(claim.id) != 0 && gpu.kept_for &&
          (memory_bytes > gpu.guest_bytes + claim.held_bytes() ||
           share_milli > gpu.guest_milli + claim.held_milli()))
        return where + " is kept for a claim before it in the queue";
    uint32_t milli = gpu.free_milli() + claim.held_milli();
    if (share_milli > milli)
      return "share " + text(share_milli) + ": " + where + " has " + text(milli) +
             " thousandths for this claim";
  }
  return "";
}

void Core::Propose(Claim& claim, const Ask& ask) {
  if (claim.before)
    return Refuse(RefusalCode::kConflict,
                  "claim '" + claim.id + "': its host has not answered the change before this one",
                  "id", "try again");
  Host& host = hosts_.at(claim.host);
  bool is_known = std::all_of(claim.devices.begin(), claim.devices.end(),
                              [&](uint32_t device) { return device < host.gpus.size(); });
  if (!is_known)
    return Refuse(RefusalCode::kConflict, "host '" + host.name + "' has not reported yet", "id",
                  "try again");
  uint64_t bytes = BytesOf(ask, host, claim.devices);
  if (std::string why = NoRoom(claim, ask, bytes); !why.empty())
    return Refuse(RefusalCode::kConflict, why, "", "a new claim may find room on another host");
  if (std::string why = GrowthLimit(claim, ask, bytes); !why.empty())
    return Refuse(RefusalCode::kConflict, "it would exceed " + why, "",
                  "the pool's operator sets it: farcall pool project set");
  if (claim.state == ClaimState::kPreempting) Spare(claim.preempted_by);  // judged anew
  Count(claim, host, false);
  claim.before = Claim::Before{claim.ask, claim.memory_bytes, claim.share_milli};
  SetAsk(claim, ask);
  claim.memory_bytes = bytes;
  claim.share_milli = ChangedShare(claim, ask);
  effects_->quota_revision = ++claim.quota_revision;
  Count(claim, host, true);
  Say("claim_changing", claim.id, claim.host, "");
  Store(claim);
  Arm(claim);
  beats_.insert(claim.host);
}

void Core::OnReportedQuota(Claim& claim, const ReportedClaim& told) {
  if (!claim.before) return;
  if (told.quota_revision == claim.quota_revision) return EndChange(claim, "");
  if (told.refused_revision == claim.quota_revision) EndChange(claim, told.change_refused);
}

// What was refused goes back to what is in force, under a new number: the host knows the other as
// refused.
void Core::EndChange(Claim& claim, const std::string& refused) {
  Host& host = hosts_.at(claim.host);
  Count(claim, host, false);
  if (!refused.empty()) {
    claim.refused_revision = claim.quota_revision;
    claim.change_refused = refused;
    SetAsk(claim, claim.before->ask);
    claim.memory_bytes = claim.before->memory_bytes;
    claim.share_milli = claim.before->share_milli;
    ++claim.quota_revision;
  }
  claim.before.reset();
  Count(claim, host, true);
  CapacityCame(&host);
  Say(refused.empty() ? "claim_changed" : "claim_change_refused", claim.id, claim.host, refused);
  Store(claim);
  Arm(claim);
}

}  // namespace farcall::pool
