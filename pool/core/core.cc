// SPDX-License-Identifier: Apache-2.0
// Claims: how they come, move and end.
#include "pool/core/core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace farcall::pool {

namespace {

// What a new controller does not know of a host.
void Forget(Host* host, Ms now) {
  host->state = HostState::kJoining;
  host->heard = host->suspect_since = now;
  host->is_connected = false;
  host->incarnation = host->beat = 0;
  host->claims.clear();
  for (Gpu& gpu : host->gpus) {
    gpu.used_bytes = gpu.used_milli = gpu.claims = gpu.exclusive = 0;
    gpu.kept_for.reset();
  }
  host->parked_bytes = 0;
}

}  // namespace

const Claim* Core::Find(const std::string& id) const {
  if (auto found = claims_.find(id); found != claims_.end()) return &found->second;
  auto gang = gangs_.find(id);
  return gang == gangs_.end() ? nullptr : gang->second.begin()->second;
}

void Core::Load(std::vector<Claim> claims, std::vector<Host> hosts, Ms now,
                std::map<std::string, JoinToken> join_tokens, std::vector<Project> projects,
                std::vector<Reservation> reservations, std::vector<Group> groups) {
  // Beyond what the one before can have given out and not stored.
  constexpr uint64_t kUnstored = 1'000'000;
  now_ = now;
  settled_at_ = After(now, timing_.settle);
  join_tokens_ = std::move(join_tokens);
  LoadProjects(std::move(projects));
  LoadGroups(std::move(groups));
  for (Reservation& reservation : reservations) {
    last_reservation_ = std::max(last_reservation_, reservation.number);
    revision_ = std::max(revision_, reservation.revision);
    std::string name = reservation.name;
    reservations_[name] = std::move(reservation);
  }
  LoadGangs(&claims);
  for (Host& host : hosts) {
    Forget(&host, now);
    revision_ = std::max(revision_, host.revision);
    std::string name = host.name;
    hosts_[name] = std::move(host);
  }
  for (Claim& loaded : claims) {
    std::string id = loaded.id;
    Claim& claim = claims_[id] = std::move(loaded);
    if (projects_.count(claim.ask.project) == 0) claim.ask.project = kDefaultProject;
    if (groups_.count(NameOfGroup(claim.ask.group)) == 0) claim.ask.group.clear();
    if (claim.before) {
      claim.before->ask.project = claim.ask.project;
      claim.before->ask.group = claim.ask.group;
    }
    if (claim.state == ClaimState::kPending) claim.ask.Choose(0);
    GroupOf(claim.ask).demand.Add(claim.ask);
    claim.turn = SequencerOf(GroupOf(claim.ask)).TurnOf(claim.order);
    claim.created = claim.since = now;
    SetEnds(claim);
    claim.reservation = NumberOf(claim.ask.reservation);
    claim.is_early = claim.state == ClaimState::kPending && claim.ask.begin_unix != 0;
    if (claim.is_early) early_.emplace(claim.ask.begin_unix, id);
    claim.renewed = 0;
    claim.avoid.clear();
    claim.sessions = 0;
    claim.was_granted = !claim.host.empty();
    claim.placed = now;
    // Whom it left for is chosen anew.
    if (claim.state == ClaimState::kPreempting) claim.state = ClaimState::kActive;
    // The silence before this start was not witnessed: counted from here.
    claim.granted_until = claim.was_granted ? After(now, OrphanAfter(claim.ask.hold_ms)) : 0;
    revision_ = std::max(revision_, claim.revision);
    last_order_ = std::max(last_order_, claim.order);
    if (!claim.idempotency_key.empty()) by_key_[{claim.tenant, claim.idempotency_key}] = id;
    if (!claim.gang.empty()) gangs_[claim.gang][claim.member] = &claim;
    if (!IsOver(claim.state)) ++tenants_[claim.tenant].claims;
    claim.is_parked = claim.state == ClaimState::kParked ||
                      (claim.is_parked && claim.state == ClaimState::kReleasing);
    if (HasHost(claim.state)) {
      auto [host, is_new] = hosts_.try_emplace(claim.host);
      if (is_new) {
        host->second.name = claim.host;
        host->second.heard = now;
      }
      Hold(claim, true);
    }
    if (WaitsForPlace(claim.state)) CountWaiting(claim, true);
  }
  for (auto& [name, host] : hosts_) FileHost(host);
  begins_ = BeginsOfReservations();
  MarkReserved();
  for (const auto& [id, claim] : claims_) {
    const bool stands_for_all = claim.gang.empty() || claim.member == 0;
    if (WaitsForPlace(claim.state) && stands_for_all) Enqueue(claim);
    Arm(claim);
  }
  if (revision_ != 0) revision_ += kUnstored;
}

Effects Core::Apply(const Event& event, Ms now) {
  Effects effects;
  effects_ = &effects;
  now_ = std::max(now, now_);
  std::visit([this](const auto& one) { On(one); }, event);
  Schedule();
  for (const std::string& name : std::exchange(beats_, {})) {
    auto host = hosts_.find(name);
    if (host != hosts_.end() && host->second.is_connected && host->second.beat != 0)
      effects.pushes[name] = AnswerTo(host->second);
  }
  effects_ = nullptr;
#ifndef NDEBUG
  if (std::string broken = Broken(); !broken.empty()) {
    std::fprintf(stderr, "pool: %s\n", broken.c_str());
    std::abort();
  }
#endif
  return effects;
}

void Core::On(const RequestClaim& event) {
  Ask ask = Completed(event.ask);
  if (auto known = by_key_.find({event.tenant, event.idempotency_key});
      !event.idempotency_key.empty() && known != by_key_.end() &&
      !(event.is_run && IsOver(claims_.at(known->second).state))) {
    const Claim& older = claims_.at(known->second);
    if (!older.is_early) ask.begin_unix = 0;  // it is not kept once it has come
    if (event.ask.placer == Placer::kUnnamed) ask.placer = older.ask.placer;
    Ask asked = older.ask;
    asked.Choose(0);
    if (!event.is_run && (asked != ask || older.gang_size != event.members))
      return Refuse(RefusalCode::kConflict, "this Idempotency-Key was used for another request",
                    "Idempotency-Key", "use a new key for a new request");
    effects_->claim = known->second;
    return;
  }
  auto [wrong, field] = FaultOf(ask);
  if (!wrong.empty()) return Refuse(RefusalCode::kInvalid, wrong, field);
  if (event.members > kMaxGang)
    return Refuse(RefusalCode::kInvalid,
                  "members " + std::to_string(event.members) + ": 1 to " + std::to_string(kMaxGang),
                  "members");
  if (event.id.empty() || claims_.count(event.id) != 0 || gangs_.count(event.id) != 0)
    return Refuse(RefusalCode::kConflict, "there is a claim '" + event.id + "' already", "id");
  const uint32_t count = std::max(event.members, 1u);
  if (!MayWait(ask.project, event.tenant, count) || !MayUseGroup(ask, count) ||
      !MayBegin(ask, event.now_unix) || !MayName(ask))
    return;
  if (std::optional<Refusal> fault = TflopsFault(ask))
    return Refuse(fault->code, fault->message, fault->field, fault->hint);
  Claim claim;
  claim.id = event.id;
  claim.tenant = event.tenant;
  claim.owner = event.owner;
  claim.idempotency_key = event.idempotency_key;
  claim.ask = ask;
  claim.created_unix = event.now_unix;
  claim.created = claim.since = now_;
  claim.reservation = NumberOf(ask.reservation);
  claim.is_early = ask.begin_unix > event.now_unix;
  if (!claim.is_early) claim.ask.begin_unix = 0;
  SetEnds(claim);
  if (event.members != 0) {
    claim.gang = event.id;
    claim.gang_size = event.members;
    if (std::string why = NeverFits(claim); !why.empty())
      return Refuse(
          RefusalCode::kConflict, why, "members",
          "ask for fewer or smaller members; farcall pool list --hosts shows what there is");
  }
  if (!Take(event.tenant, count)) return;
  for (claim.member = 0; claim.member < count; ++claim.member) Add(claim);
}

void Core::Add(Claim claim) {
  if (!claim.gang.empty()) claim.id = claim.gang + "-" + std::to_string(claim.member);
  claim.order = ++last_order_;
  claim.turn = SequencerOf(GroupOf(claim.ask)).TurnOf(claim.order);
  GroupOf(claim.ask).demand.Add(claim.ask);
  if (claim.member == 0) effects_->claim = claim.id;
  if (claim.member == 0 && !claim.idempotency_key.empty())
    by_key_[{claim.tenant, claim.idempotency_key}] = claim.id;
  Claim& added = claims_[claim.id] = std::move(claim);
  if (!added.gang.empty()) gangs_[added.gang][added.member] = &added;
  if (added.is_early) early_.emplace(added.ask.begin_unix, added.id);
  CountWaiting(added, true);
  Enqueue(added);
  Store(added);
  Arm(added);
}

bool Core::Take(const std::string& tenant, uint32_t claims) {
  if (claims_.size() + claims > limits_.claims) {
    Refuse(RefusalCode::kTooMany,
           "the pool knows " + std::to_string(claims_.size()) + " claims, which is all it can", "",
           "those that are over are forgotten after an hour");
    return false;
  }
  TenantUse& use = tenants_[tenant];
  if (!tenant.empty()) {
    if (use.claims + claims > limits_.tenant_claims) {
      Refuse(RefusalCode::kTooMany,
             "claims: this token has " + std::to_string(use.claims) + " of " +
                 std::to_string(limits_.tenant_claims),
             "", "release one, or let the pool's operator raise --max-tenant-claims");
      return false;
    }
    const Ms cost = 60'000 / std::max(limits_.tenant_per_minute, 1u) * claims;
    const Ms paid = std::max(use.paid_until, now_) + cost;
    if (paid - now_ > cost / claims * limits_.tenant_claims) {
      Refuse(RefusalCode::kTooMany,
             "claims: this token asks for more than " + std::to_string(limits_.tenant_per_minute) +
                 " a minute",
             "", "try again in " + std::to_string(cost) + " ms");
      return false;
    }
    use.paid_until = paid;
  }
  use.claims += claims;
  return true;
}

Claim* Core::Named(const std::string& id, const std::optional<std::string>& by,
                   const std::optional<uint64_t>& if_revision) {
  const Claim* named = Find(id);
  if (named == nullptr || (by && named->tenant != *by)) {
    Refuse(RefusalCode::kNotFound, "there is no claim '" + id + "'", "id",
           "farcall pool list shows them");
    return nullptr;
  }
  if (if_revision && *if_revision != named->revision) {
    Refuse(RefusalCode::kConflict,
           "revision " + std::to_string(*if_revision) + ": it is " +
               std::to_string(named->revision) + " by now",
           "If-Match", "read it again");
    return nullptr;
  }
  effects_->claim = named->id;
  return &claims_.at(named->id);
}

void Core::On(const ReleaseClaim& event) {
  Claim* named = Named(event.id, event.by, event.if_revision);
  if (named == nullptr) return;
  Claim& claim = *named;
  if (IsOver(claim.state)) return;  // once more is no error
  if (claim.state == ClaimState::kReleasing) {
    claim.requeues = false;
    claim.final_state = ClaimState::kReleased;
    claim.reason = event.reason;
    Store(claim);
    return FollowInGang(claim);
  }
  End(claim, ClaimState::kReleased, event.reason);
}

void Core::On(const RenewClaim& event) {
  Claim* claim = Named(event.id, event.by, std::nullopt);
  if (claim == nullptr) return;
  if (IsOver(claim->state))
    return Refuse(RefusalCode::kConflict, "claim '" + event.id + "' is over", "id");
  claim->renewed = now_;
  Arm(*claim);
}

void Core::On(const Tick& event) {
  TellTime(event.unix_ms);
  if (now_ >= settled_at_) {
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
      std::string id = deadlines_.begin()->second;
      Disarm(id);
      Expire(claims_.at(id));
    }
  }
  ForgetRefusals();
  SweepHosts();
  PreemptLater();
  KeepPlaces();
  SweepUsage();
}

void Core::MoveAsReported(Claim& claim, ClaimState to) {
  if (!MayBecome(claim.state, to)) std::abort();  // a fault of ours, not of a peer's
  claim.state = to;
  claim.since = now_;
  claim.reason.clear();
  claim.park_by = 0;
  claim.is_out = false;
  Say(std::string("claim_").append(ToText(to)), claim.id, claim.host, "");
  NotifyHostOf(claim);
  Arm(claim);
}

void Core::Move(Claim& claim, ClaimState to, const std::string& reason) {
  if (!MayBecome(claim.state, to)) std::abort();  // a fault of ours, not of a peer's
  const bool had_host = HasHost(claim.state), has_host = HasHost(to);
  const bool parks = to == ClaimState::kParked || (to == ClaimState::kReleasing && claim.is_parked);
  if (WaitsForPlace(claim.state)) {
    Dequeue(claim);
    if (std::exchange(claim.is_early, false)) early_.erase({claim.ask.begin_unix, claim.id});
    CountWaiting(claim, false);
    DropKept(LeaderOf(claim).id, IsGranted(to));
  }
  if (had_host && !has_host) Hold(claim, false);
  if (IsOver(to)) {
    --tenants_.at(claim.tenant).claims;
    accounts_.EndClaim(claim.id, &effects_->accounts);
  }
  if (to != ClaimState::kPreempting) {
    SetLeaving(claim, "");
    claim.is_reclaimed = false;
  }
  claim.state = to;
  claim.since = now_;
  claim.reason = reason;
  claim.is_accepted = claim.is_out = false;
  claim.park_by = 0;
  if (had_host && has_host && parks != claim.is_parked) {
    Host& host = hosts_.at(claim.host);
    Count(claim, host, false);
    claim.is_parked = parks;
    Count(claim, host, true);
    if (parks) CapacityCame(&host);
  }
  if (!had_host && has_host) Hold(claim, true);
  if (had_host && !has_host) {
    claim.host.clear();
    claim.devices.clear();
    claim.share_milli = 0;
    claim.before.reset();
    claim.was_granted = claim.is_parked = false;
    claim.granted_until = 0;
  }
  if (to == ClaimState::kPending) claim.ask.Choose(0);
  if (WaitsForPlace(to)) {
    CountWaiting(claim, true);
    Enqueue(claim);
  }
  Say(std::string("claim_").append(ToText(to)), claim.id, claim.host, reason);
  Store(claim);
  Arm(claim);
  FollowInGang(claim);
}

void Core::End(Claim& claim, ClaimState final_state, const std::string& reason, bool requeues) {
  if (!HasHost(claim.state)) return Move(claim, final_state, reason);
  claim.final_state = final_state;
  claim.requeues = requeues;
  if (claim.was_granted) {
    std::string host = claim.host;
    Move(claim, ClaimState::kReleasing, reason);
    beats_.insert(host);
    return;
  }
  // No host was ever told of it.
  Move(claim, requeues ? ClaimState::kPending : final_state, reason);
}

void Core::Finish(Claim& claim) {
  Move(claim, claim.requeues ? ClaimState::kPending : claim.final_state, claim.reason);
}

// A host that is not known yet, or has fewer GPUs than it had, is counted when it reports.
void Core::Hold(const Claim& claim, bool held) {
  auto found = hosts_.find(claim.host);
  if (found == hosts_.end()) return;
  Host& host = found->second;
  if (held ? !host.claims.insert(claim.id).second : host.claims.erase(claim.id) == 0) return;
  Count(claim, host, held);
  if (effects_ != nullptr) effects_->shown_hosts.insert(host.name);
  if (!held) {
    CapacityCame(&host);
    Settle(host);
  }
}

void Core::Count(const Claim& claim, Host& host, bool held) {
  if (claim.is_parked) {
    host.parked_bytes += held ? claim.slab_bytes() : uint64_t{0} - claim.slab_bytes();
    return;
  }
  CountPreemptible(claim, host.name, held);
  CountUse(claim, host, held);
  for (uint32_t device : claim.devices) {
    if (device >= host.gpus.size()) continue;
    Gpu& gpu = host.gpus[device];
    uint32_t exclusive = claim.is_exclusive() ? 1 : 0;
    if (held) {
      gpu.used_bytes += claim.held_bytes();
      gpu.used_milli += claim.held_milli();
      gpu.exclusive += exclusive;
      ++gpu.claims;
    } else {
      gpu.used_bytes -= claim.held_bytes();
      gpu.used_milli -= claim.held_milli();
      gpu.exclusive -= exclusive;
      --gpu.claims;
    }
  }
  host.Summarise();
}

void Core::Store(const Claim& claim) {
  claims_.at(claim.id).revision = ++revision_;
  effects_->claims.insert(claim.id);
}

// The new controller hears it from the host: no reply waits for the disk.
void Core::NotifyHostOf(const Claim& claim) {
  claims_.at(claim.id).revision = ++revision_;
  effects_->notified_claims.insert(claim.id);
}

void Core::Store(Host& host) {
  host.revision = ++revision_;
  effects_->hosts.insert(host.name);
}

void Core::Say(std::string kind, const std::string& claim, const std::string& host,
               std::string text) {
  const Claim* of = Find(claim);
  effects_->log_entries.push_back(
      {std::move(kind), claim, host, std::move(text), of == nullptr ? std::string() : of->tenant});
}

void Core::Refuse(RefusalCode code, std::string message, std::string field, std::string hint) {
  effects_->refusal = Refusal{code, std::move(message), std::move(field), std::move(hint)};
}

}  // namespace farcall::pool
