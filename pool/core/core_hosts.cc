// SPDX-License-Identifier: Apache-2.0
// Hosts: what they report, what they are granted, their silence.
#include <algorithm>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr uint32_t kMaxRefusals = 3;  // one after the other: its inventory is not to be believed
// Before a claim is accepted its host may hold it for a short time only, so that another can be
// tried soon.
constexpr Ms kUnacceptedHold = 30'000;
// So many hosts falling silent together says more about us than about them.
constexpr size_t kLeastForMass = 4;
constexpr double kMassSilence = 0.3;
constexpr Ms kMassWindow = 30'000;

bool SameInventory(const std::vector<Gpu>& a, const std::vector<Gpu>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Gpu& x, const Gpu& y) {
    return x.name == y.name && x.uuid == y.uuid && x.memory_bytes == y.memory_bytes &&
           x.numa_node == y.numa_node && x.nvlink_group == y.nvlink_group;
  });
}

Ms HoldOf(const Claim& claim) {
  return claim.state == ClaimState::kReserved ? std::min(kUnacceptedHold, claim.ask.hold_ms)
                                              : claim.ask.hold_ms;
}

constexpr char kIsEnding[] = "its server is ending";

}  // namespace

void Core::SetState(Host& host, HostState to, const std::string& why) {
  if (host.state == to) return;
  if (!MayBecome(host.state, to)) std::abort();  // a fault of ours, not of a peer's
  if (to == HostState::kReady) CapacityCame(&host);
  if (to == HostState::kSuspect) host.suspect_since = now_;
  host.state = to;
  Say(std::string("host_").append(ToText(to)), "", host.name, why);
  Store(host);
}

HostState Core::StateOfPresent(const Host& host) const {
  if (!host.drains && !host.is_ending) return HostState::kReady;
  return host.claims.empty() ? HostState::kDrained : HostState::kDraining;
}

void Core::Settle(Host& host) {
  if (host.state == HostState::kReady || host.state == HostState::kDraining ||
      host.state == HostState::kDrained)
    SetState(host, StateOfPresent(host));
}

void Core::On(const HostReport& report) {
  if (!IsHostName(report.host))
    return Refuse(RefusalCode::kInvalid, "a host's name has 1 to 64 letters, digits and . _ -",
                  "host", "give it one with --pool-name");
  if (hosts_.size() >= limits_.hosts && hosts_.count(report.host) == 0)
    return Refuse(RefusalCode::kTooMany,
                  "the pool has " + std::to_string(hosts_.size()) + " hosts, which is all it can",
                  "host");
  auto [found, is_new] = hosts_.try_emplace(report.host);
  Host& host = found->second;
  if (is_new) {
    host.name = report.host;
    host.incarnation = report.incarnation;
    FileHost(host);
    Say("host_joining", "", host.name, "");
    Store(host);
  }
  bool is_present = host.state != HostState::kLost && host.state != HostState::kSuspect;
  bool is_other = host.incarnation != report.incarnation;
  if (report.incarnation < host.incarnation || (is_other && host.is_connected && is_present))
    return Refuse(RefusalCode::kConflict, "a host named '" + host.name + "' is in the pool already",
                  "host", "give this one another name with --pool-name");
  if (!is_other && report.beat <= host.beat)
    return Refuse(
        RefusalCode::kConflict,
        "heartbeat " + std::to_string(report.beat) + " comes after " + std::to_string(host.beat),
        "beat");
  host.beat = report.beat;
  host.answers = 0;
  if (is_other) {
    host.incarnation = report.incarnation;
    host.refusals = 0;
    Store(host);
  }
  host.instance = host.incarnation;
  host.heard = now_;
  host.is_connected = true;
  if (host.state == HostState::kLost) SetState(host, HostState::kJoining);
  TakeInventory(host, report);
  TakeEnding(host, report.is_draining);
  SetState(host, StateOfPresent(host));
  std::set<std::string> told;
  for (const ReportedClaim& claim : report.claims) {
    if (claim.refused.empty()) told.insert(claim.claim);
    OnReportedClaim(host, claim);
  }
  MissClaims(host, told);
  Settle(host);
  Schedule();  // so that what fits goes out with this answer
  effects_->answer = AnswerTo(host);
  beats_.erase(host.name);
}

// A server that ends takes no more claims; the next one of that name does.
void Core::TakeEnding(Host& host, bool is_ending) {
  const bool is_asked_for = host.drains || host.is_cordoned;
  const bool was_ending = host.is_ending || (host.reason == kIsEnding && !is_asked_for);
  if (is_ending == was_ending && is_ending == host.is_ending) return;
  host.is_ending = is_ending;
  if (!is_asked_for) host.reason = is_ending ? kIsEnding : "";
  if (!is_ending) CapacityCame(&host);
  Store(host);
}

void Core::TakeInventory(Host& host, const HostReport& report) {
  if (host.endpoints != report.endpoints) {
    host.endpoints = report.endpoints;
    Store(host);
  }
  if (host.park_bytes != report.park_bytes) {
    host.park_bytes = report.park_bytes;
    Store(host);
  }
  if (host.net_ceiling != report.net_ceiling) {
    host.net_ceiling = report.net_ceiling;
    CapacityCame(&host);
    CountCapacity();
    Store(host);
  }
  if (host.oversubscribe_milli != report.oversubscribe_milli) {
    host.oversubscribe_milli = report.oversubscribe_milli;
    if (Rate(host)) {
      CapacityCame(&host);
      CountCapacity();
      if (!kept_.empty()) MarkKept();
    }
    Store(host);
  }
  if (SameInventory(host.gpus, report.gpus)) return;
  std::set<std::string> held = host.claims;
  for (const std::string& id : held) Hold(claims_.at(id), false);
  host.gpus = report.gpus;
  for (Gpu& gpu : host.gpus) gpu.used_bytes = gpu.used_milli = gpu.claims = gpu.exclusive = 0;
  host.Arrange();
  Rate(host);
  host.Summarise();
  if (!reservations_.empty()) MarkReserved();
  for (const std::string& id : held) Hold(claims_.at(id), true);
  CapacityCame(&host);
  CountCapacity();
  Store(host);
}

void Core::OnReportedClaim(Host& host, const ReportedClaim& told) {
  auto found = claims_.find(told.claim);
  if (found == claims_.end()) {
    if (told.refused.empty() && !told.is_ending) Adopt(host, told);
    return;
  }
  Claim& claim = found->second;
  // What is not granted in the answer, the host lets go; what was never granted it cannot hold.
  if (claim.host != host.name || claim.epoch != told.epoch || !IsGranted(claim.state) ||
      !claim.was_granted)
    return;
  if (!told.refused.empty()) return OnRefusal(host, claim, told.refused);
  if (told.is_ending) return;
  if (claim.state == ClaimState::kReserved)
    host.refusals = 0;  // what it has long held says nothing
  if (claim.sessions != told.sessions) effects_->shown_claims.insert(claim.id);
  claim.sessions = told.sessions;
  bool runs = told.sessions != 0;
  switch (claim.state) {
    case ClaimState::kReserved:
      if (!claim.gang.empty()) {
        AcceptInGang(claim);
        break;
      }
      claim.placed = now_;
      MoveAsReported(claim, runs ? ClaimState::kActive : ClaimState::kBound);
      break;
    case ClaimState::kBound:
    case ClaimState::kIdle:
      if (runs) MoveAsReported(claim, ClaimState::kActive);
      break;
    case ClaimState::kActive:
      if (!runs) MoveAsReported(claim, ClaimState::kIdle);
      break;
    default:
      break;
  }
  OnReportedQuota(claim, told);
  OnReportedParking(claim, told);
}

// A store that was lost or is older than the host: running programs are not its victims.
void Core::Adopt(Host& host, const ReportedClaim& told) {
  // Any name that a host makes up would stay with us for an hour.
  if (host.adopted >= limits_.adopted || claims_.size() >= limits_.claims) return;
  ++host.adopted;
  Claim& claim = claims_[told.claim];
  claim.id = told.claim;
  claim.owner = "adopted";
  ++tenants_[claim.tenant].claims;
  claim.ask.project = kDefaultProject;
  claim.ask.count = static_cast<uint32_t>(told.devices.size());
  claim.ask.memory_bytes = claim.memory_bytes = told.memory_bytes;
  claim.ask.share_milli = claim.share_milli = std::min(told.share_milli, kWholeMilli);
  claim.ask.limit_milli = told.limit_milli;
  claim.ask.priority = told.priority;
  claim.ask.seats = told.seats;
  claim.ask.net_bytes_per_s = told.net_bytes_per_s;
  claim.epoch = told.epoch;
  claim.quota_revision = told.quota_revision;
  claim.order = ++last_order_;
  claim.ask.group = host.group;
  claim.turn = SequencerOf(GroupOf(claim.ask)).TurnOf(claim.order);
  GroupOf(claim.ask).demand.Add(claim.ask);
  claim.host = host.name;
  claim.devices = told.devices;
  claim.sessions = told.sessions;
  claim.was_granted = true;
  claim.granted_until = now_ + OrphanAfter(claim.ask.hold_ms);
  claim.state = told.sessions != 0 ? ClaimState::kActive : ClaimState::kBound;
  claim.created = claim.since = claim.placed = now_;
  Hold(claim, true);
  Say("claim_adopted", claim.id, host.name, "its host holds it, this store did not know it");
  Store(claim);
  Arm(claim);
}

void Core::OnRefusal(Host& host, Claim& claim, const std::string& why) {
  Say("claim_refused", claim.id, host.name, why);
  if (claim.state == ClaimState::kParked) {
    Move(claim, ClaimState::kPending, why);  // it has lost it
  } else if (claim.state == ClaimState::kReserved) {
    Claim& leader = LeaderOf(claim);
    leader.avoid.insert(host.name);
    avoiding_[leader.id] = now_ + timing_.refused_pause;
    Move(claim, ClaimState::kPending, why);
  } else {
    Move(claim, ClaimState::kFailed, why);  // its host has come back with less than it had
  }
  if (++host.refusals < kMaxRefusals || host.is_cordoned) return;
  host.is_cordoned = true;
  host.reason = "its ledger refused " + std::to_string(host.refusals) +
                " claims that fit its inventory: " + why;
  Say("host_cordoned", "", host.name, host.reason);
  Store(host);
}

// A host acts only on the answer to its latest heartbeat, so what this one does not list it does
// not hold, and no older answer can bring it back.
void Core::MissClaims(Host& host, const std::set<std::string>& told) {
  std::set<std::string> held = host.claims;
  for (const std::string& id : held) {
    if (told.count(id) != 0) continue;
    Claim& claim = claims_.at(id);
    claim.sessions = 0;
    if (claim.state == ClaimState::kReleasing) Finish(claim);
    if (claim.state == ClaimState::kActive) MoveAsReported(claim, ClaimState::kIdle);
    if (claim.state == ClaimState::kParked)
      Move(claim, ClaimState::kPending, "its host has lost what it had parked");
  }
}

std::vector<Grant> Core::GrantsOf(Host& host) {
  std::vector<Grant> grants;
  for (const std::string& id : host.claims) {
    Claim& claim = claims_.at(id);
    if (!IsGranted(claim.state)) continue;
    Ms hold = HoldOf(claim);
    claim.was_granted = true;
    claim.granted_until = std::max(claim.granted_until, now_ + OrphanAfter(hold));
    grants.push_back({id, claim.epoch, claim.devices, claim.memory_bytes, claim.share_milli,
                      claim.ask.limit_milli, claim.ask.priority, claim.ask.seats, hold,
                      claim.quota_revision, claim.ask.net_bytes_per_s,
                      claim.is_parked || claim.park_by != 0});
  }
  return grants;
}

std::map<std::string, std::string> Core::EndedOn(const Host& host) const {
  std::map<std::string, std::string> ended;
  for (const std::string& id : host.claims)
    if (const Claim& claim = claims_.at(id);
        claim.state == ClaimState::kReleasing &&
        (claim.requeues || claim.final_state != ClaimState::kReleased))
      ended[id] = claim.reason;
  return ended;
}

Answer Core::AnswerTo(Host& host) {
  return {host.incarnation, host.beat, ++host.answers, GrantsOf(host), EndedOn(host)};
}

void Core::On(const Regranted& event) {
  for (const std::string& name : event.hosts) {
    auto host = hosts_.find(name);
    if (host == hosts_.end()) continue;
    host->second.heard = now_;
    for (const std::string& id : host->second.claims) {
      Claim& claim = claims_.at(id);
      if (!claim.was_granted) continue;
      claim.granted_until = std::max(claim.granted_until, now_ + OrphanAfter(HoldOf(claim)));
      Arm(claim);
    }
  }
}

void Core::On(const HostClosed& event) {
  auto found = hosts_.find(event.host);
  if (found != hosts_.end() && found->second.incarnation == event.incarnation)
    found->second.is_connected = false;
}

Host* Core::NamedHost(const std::string& name, const std::optional<uint64_t>& if_revision) {
  auto found = hosts_.find(name);
  if (found == hosts_.end()) {
    Refuse(RefusalCode::kNotFound, "there is no host '" + name + "'", "host",
           "farcall pool list --hosts shows them");
    return nullptr;
  }
  Host& host = found->second;
  if (if_revision && *if_revision != host.revision) {
    Refuse(RefusalCode::kConflict,
           "revision " + std::to_string(*if_revision) + ": it is " + std::to_string(host.revision) +
               " by now",
           "If-Match", "read it again");
    return nullptr;
  }
  return &host;
}

void Core::On(const SetHost& event) {
  Host* to_change = NamedHost(event.host, event.if_revision);
  if (to_change == nullptr) return;
  Host& host = *to_change;
  bool was_closed = host.drains || host.is_cordoned;
  switch (event.verb) {
    case SetHost::Verb::kDrain:
      host.drains = true;
      break;
    case SetHost::Verb::kCordon:
      host.is_cordoned = true;
      break;
    case SetHost::Verb::kUncordon:
      host.drains = host.is_cordoned = false;
      host.refusals = 0;
      if (was_closed) CapacityCame(&host);
      break;
  }
  if (event.verb != SetHost::Verb::kUncordon)
    host.reason = "asked for";
  else
    host.reason = host.is_ending ? kIsEnding : "";
  Store(host);
  Settle(host);
  if (event.verb != SetHost::Verb::kDrain) return;
  // Claims nobody uses go elsewhere; those in use end in their own time.
  std::set<std::string> held = host.claims;
  for (const std::string& id : held) {
    Claim& claim = claims_.at(id);
    if (IsGranted(claim.state) && !IsGangUsed(claim))
      End(claim, ClaimState::kFailed, "its host drains", true);
  }
}

bool Core::FellSilentWithMany(const Host& host) const {
  if (hosts_.size() < kLeastForMass) return false;
  auto with_it = std::count_if(hosts_.begin(), hosts_.end(), [&](const auto& other) {
    Ms apart = other.second.suspect_since - host.suspect_since;
    return other.second.state == HostState::kSuspect && apart <= kMassWindow &&
           -apart <= kMassWindow;
  });
  return static_cast<double>(with_it) > kMassSilence * static_cast<double>(hosts_.size());
}

void Core::SweepHosts() {
  for (auto& [name, host] : hosts_) {
    bool speaks = host.state != HostState::kSuspect && host.state != HostState::kLost;
    if (speaks && now_ - host.heard >= timing_.suspect && now_ >= settled_at_)
      SetState(host, HostState::kSuspect, "silent");
  }
  for (auto& [name, host] : hosts_) {
    if (host.state == HostState::kSuspect && now_ - host.heard >= timing_.lost &&
        !FellSilentWithMany(host))
      SetState(host, HostState::kLost, "silent");
    if (host.state != HostState::kLost) continue;
    std::set<std::string> held = host.claims;
    for (const std::string& id : held) {
      Claim& claim = claims_.at(id);
      if (now_ >= settled_at_ && now_ >= claim.granted_until && IsGranted(claim.state))
        Move(claim, ClaimState::kFailed, "host_lost");
    }
  }
}

}  // namespace farcall::pool
