// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pool/core/random_world.h"

namespace farcall::pool {

Placer World::AnyPlacer() {
  constexpr Placer kPlacers[] = {Placer::kPack, Placer::kSpread,   Placer::kFgd,  Placer::kUnnamed,
                                 Placer::kPack, Placer::kSpread,   Placer::kNear, Placer::kUnnamed,
                                 Placer::kPack, Placer::kTopology, Placer::kFgd,  Placer::kUnnamed};
  return kPlacers[Below(std::size(kPlacers))];
}

void World::Request() {
  RequestClaim request;
  request.id = std::string("c").append(std::to_string(++last_id_));
  request.ask.count = 1 + static_cast<uint32_t>(Below(5) == 0);
  request.ask.memory_bytes = Below(8) == 0 ? 0 : (1 + Below(6)) * kWorldGiB / 2;
  request.ask.share_milli = static_cast<uint32_t>(Below(3) * 250);
  request.ask.placer = AnyPlacer();
  request.ask.labels["zone"] = "a";
  if (Below(3) == 0)
    for (uint64_t i = 0; i < 2 + Below(2); ++i)
      request.ask.sizes.push_back(
          {1 + static_cast<uint32_t>(Below(2)), Below(6) == 0 ? 0 : (1 + Below(8)) * kWorldGiB / 2,
           static_cast<uint32_t>(Below(3) * 250), Below(3) == 0 ? "even" : ""});
  if (is_rated_) AskForTflops(&request.ask);
  if (Below(3) == 0 && core_->groups().size() > 1) request.ask.group = AnyGroup();
  request.ask.hold_ms = static_cast<Ms>(Below(3) == 0 ? 24 * 3600 * 1000 : Below(200'000));
  request.ask.on_disconnect_ms = static_cast<Ms>(Below(2) * 30'000);
  request.ask.seats = 1 + static_cast<uint32_t>(Below(3));
  request.ask.queue_priority = static_cast<int32_t>(Below(4)) - 1;
  request.ask.preemptible = Below(2) == 0;
  if (Below(5) == 0) (void)ParseSelector("zone=a, model=even", &request.ask.selector);
  request.tenant = Below(2) == 0 ? "" : "t";
  const char* project = kWorldProjects[Below(std::size(kWorldProjects))];
  if (core_->FindProject(project) != nullptr) request.ask.project = project;
  if (Below(4) == 0) request.ask.lifetime_ms = static_cast<Ms>(1000 + Below(90'000));
  request.now_unix = UnixMs() / 1000;
  if (Below(6) == 0) request.ask.begin_unix = request.now_unix + static_cast<int64_t>(Below(40));
  if (!core_->reservations().empty() && Below(3) == 0)
    request.ask.reservation = core_->reservations().begin()->first;
  if (Below(3) == 0) request.members = 1 + static_cast<uint32_t>(Below(4));
  Do(request);
}

void World::AskForTflops(Ask* ask) {
  auto rate = [this](uint32_t* share_milli, uint32_t* gflops) {
    if (Below(2) == 0) return;
    *share_milli = 0;
    *gflops = 1000 * (1 + static_cast<uint32_t>(Below(9)));
  };
  rate(&ask->share_milli, &ask->gflops);
  if (ask->sizes.empty()) return;
  for (Size& size : ask->sizes) rate(&size.share_milli, &size.gflops);
  ask->Choose(0);
}

void World::Reserve() {
  MakeReservation make;
  make.reservation.name = "r" + std::to_string(Below(3));
  make.reservation.gpus = 1 + static_cast<uint32_t>(Below(2));
  make.now_unix = UnixMs() / 1000;
  if (Below(3) != 0) make.reservation.begin_unix = make.now_unix + static_cast<int64_t>(Below(60));
  make.reservation.end_unix =
      std::max(make.reservation.begin_unix, make.now_unix) + static_cast<int64_t>(Below(90));
  if (Below(3) == 0) make.reservation.project = "p";
  if (Below(4) == 0) make.reservation.group = AnyGroup();
  Do(make);
}

void World::CheckGangs() {
  for (const auto& [id, claim] : core_->claims())
    RC_ASSERT(claim.state != ClaimState::kReserved ||
              now_ - claim.since < core_->timing().reserved);
}

void World::CheckLimits(const Effects& effects) {
  for (const std::string& id : effects.claims) {
    const Claim* claim = core_->Find(id);
    if (claim == nullptr || claim->state != ClaimState::kReserved ||
        std::exchange(placed_[id], claim->epoch) == claim->epoch)
      continue;
    const Host& host = core_->hosts().at(claim->host);
    const GroupState& group = *core_->FindGroup(NameOfGroup(claim->ask.group));
    RC_ASSERT(host.group == claim->ask.group);
    RC_ASSERT(Takes(group.group, claim->ask.project));
    RC_ASSERT(group.group.max_claims == 0u || group.held <= group.group.max_claims);
    RC_ASSERT(claim->ask.sizes.empty() || claim->ask.count == claim->devices.size());
    for (uint32_t device : claim->devices) {
      RC_ASSERT(device >= host.gpus.size() || !IsReserved(host.gpus[device], *claim));
      RC_ASSERT(device >= host.gpus.size() ||
                ShareOn(host.gpus[device], claim->ask) == claim->share_milli);
    }
    for (const ProjectState* at = core_->FindProject(claim->ask.project); at != nullptr;
         at = at->parent) {
      RC_ASSERT(at->project.limit.Exceeded(at->used).empty());
      RC_ASSERT(at->project.max_claims == 0u || at->held <= at->project.max_claims);
      if (!is_rated_) continue;
      for (size_t i = 0; i < at->project.models.size(); ++i)
        for (uint32_t device : claim->devices)
          RC_ASSERT(device >= host.gpus.size() ||
                    host.gpus[device].name != at->project.models[i].model ||
                    at->project.models[i].limit.Exceeded(at->of_models[i]).empty());
    }
  }
  for (const auto& [id, claim] : core_->claims()) {
    if (claim.state != ClaimState::kPreempting || !claim.is_reclaimed) continue;
    const std::string& whose = core_->Find(claim.preempted_by)->ask.project;
    RC_ASSERT(!IsWithin(whose, claim.ask.project));
  }
  RC_ASSERT(core_->InOrder(SIZE_MAX).size() == core_->pending());
}

void World::SetAnyProject(const std::string& name) {
  SetProject set;
  set.project.name = name;
  set.project.weight = 1 + static_cast<uint32_t>(Below(3));
  if (Below(2) == 0) set.project.deserved.memory_bytes = Below(8) * kWorldGiB;
  if (Below(3) == 0)
    set.project.limit.memory_bytes =
        set.project.deserved.memory_bytes.value_or(0) + Below(12) * kWorldGiB;
  if (Below(4) == 0) set.project.max_claims = 1 + static_cast<uint32_t>(Below(4));
  if (Below(4) == 0) set.project.over_quota_weight = static_cast<uint32_t>(Below(2));
  if (Below(6) == 0) set.project.models = {{"odd", {}, {{}, {}, Below(3)}}};
  if (is_rated_) {
    if (Below(3) == 0) set.project.deserved.share_milli = Below(8) * 200;
    if (Below(3) == 0)
      set.project.limit.share_milli =
          set.project.deserved.share_milli.value_or(0) + Below(12) * 200;
    if (Below(4) == 0) set.project.models = {{"odd", {{}, Below(4) * 200, {}}, {{}, 800, {}}}};
  }
  Do(set);
}

void World::SetAnyGroup() {
  SetGroup set;
  set.group.name = AnyGroup();
  if (set.group.name != kDefaultGroup) {
    if (Below(2) == 0) set.group.hosts = {AnyHost().name};
    if (set.group.hosts.empty() || Below(3) == 0)
      (void)ParseSelector("zone=a", &set.group.selector);
  }
  if (Below(3) == 0) set.group.projects = {kWorldProjects[Below(std::size(kWorldProjects))]};
  if (Below(2) == 0) set.group.sequencer = SequencerNames()[Below(4)];
  set.group.placer = AnyPlacer();
  set.group.round_trips = {{"a", "b", 300}};
  if (is_rated_ && Below(4) != 0) {
    set.group.tflops = {{"even", 1000 * (1 + static_cast<uint32_t>(Below(8)))}};
    if (Below(4) != 0)
      set.group.tflops.push_back({"odd", Below(2) == 0 ? set.group.tflops.front().gflops : 12'000});
  }
  if (is_lent_) set.group.oversubscribe_milli = AnyFactor();
  if (Below(4) == 0) set.group.max_pending = static_cast<uint32_t>(Below(6));
  if (Below(4) == 0) set.group.max_claims = static_cast<uint32_t>(Below(4));
  Do(set);
}

void World::Check() {
  std::map<std::string, std::string> open_at;
  for (const auto& [name, host] : hosts_) {
    for (size_t g = 0; g < host.real_bytes.size(); ++g) {
      RC_ASSERT(host.ledger->memory_on(static_cast<uint32_t>(g)) <=
                host.real_bytes[g] +
                    LentBeyond(host.real_bytes[g], host.bounds.oversubscribe_milli));
      RC_ASSERT(host.ledger->share_on(static_cast<uint32_t>(g)) <= 1000u);
    }
    RC_ASSERT(host.ledger->parked_bytes() <= host.bounds.park_bytes);
    std::map<std::string, uint32_t> running;
    for (const auto& [id, epoch] : host.sessions) {
      ++running[id];
      auto held = host.ledger->held().find(id);
      RC_ASSERT(held != host.ledger->held().end());
      RC_ASSERT(held->second.grant.epoch == epoch);
    }
    for (const auto& [id, held] : host.ledger->held()) {
      RC_ASSERT(held.sessions == running[id]);
      RC_ASSERT(held.sessions <= held.grant.seats);
      // What the pool counts is never less than what its host has in force or is about to.
      auto known = core_->claims().find(id);
      if (known != core_->claims().end() && known->second.host == name &&
          known->second.epoch == held.grant.epoch && term_ == host.highest_term) {
        RC_ASSERT(known->second.held_bytes() >= held.bytes());
        RC_ASSERT(known->second.held_milli() >= held.milli());
        // What has given its GPUs back has left them.
        RC_ASSERT(known->second.state != ClaimState::kParked || held.is_parked);
      }
      if (held.is_ending || host.NowAt(now_) >= held.until) continue;
      auto [first, is_only] = open_at.emplace(id, name);
      RC_ASSERT(is_only);  // a claim opens sessions on one host
    }
  }
}

void World::Advance(Ms by) {
  now_ += by;
  for (auto& [name, host] : hosts_) host.EndSessions(host.ledger->Expire(host.NowAt(now_)));
  // Somebody sets the clock.
  if (Below(40) == 0) set_by_ += Below(2) == 0 ? 3'600'000 : -3'600'000;
  if (Do(Tick{UnixMs()})) CheckGangs();
}

void World::Open() {
  for (const auto& [id, claim] : core_->claims())
    if (IsGranted(claim.state) && Below(2) == 0) tokens_.push_back({id, claim.host, claim.epoch});
  if (tokens_.empty()) return;
  const Token& token = tokens_[Below(tokens_.size())];
  SimHost& host = hosts_.at(token.host);
  if (!host.ledger->OpenSeat(token.claim, token.epoch, host.NowAt(now_)).ok()) return;
  host.sessions.emplace_back(token.claim, token.epoch);
  uint64_t& newest = opened_[token.claim][token.host];
  RC_ASSERT(token.epoch >= newest || host.incarnation > 1);
  newest = token.epoch;
}

void World::Close() {
  SimHost& host = AnyHost();
  if (host.sessions.empty()) return;
  size_t at = Below(host.sessions.size());
  host.ledger->CloseSeat(host.sessions[at].first);
  host.sessions.erase(host.sessions.begin() + static_cast<long>(at));
}

void World::OnAnswer(const AnswerInFlight& answer) {
  SimHost& host = hosts_.at(answer.host);
  if (answer.answer.incarnation != host.incarnation) return;  // another process's socket
  host.EndSessions(host.ledger->Expire(host.NowAt(now_)));
  std::map<std::string, uint64_t> epochs;
  for (const auto& [id, held] : host.ledger->held()) epochs[id] = held.grant.epoch;
  auto ends = host.ledger->Answer(answer.answer.beat, answer.answer.number, answer.term,
                                  GrantsOf(answer.answer), host.NowAt(now_));
  RC_ASSERT(host.ledger->term() >= host.highest_term);
  host.highest_term = host.ledger->term();
  if (!ends.ok()) return;
  host.EndSessions(host.ledger->Expire(host.NowAt(now_)));
  // Nobody's session ends because a controller died: only what the store says is over, or moved.
  for (const std::string& id : *ends) {
    auto stored = stored_claims_.find(id);
    bool is_kept = stored != stored_claims_.end() && IsGranted(stored->second.state) &&
                   stored->second.host == host.name && stored->second.epoch == epochs[id];
    bool hold_over =
        host.ledger->held().count(id) != 0 && host.NowAt(now_) >= host.ledger->held().at(id).until;
    RC_ASSERT(!is_kept || hold_over);
  }
  host.EndSessions(*ends);
}

}  // namespace farcall::pool
