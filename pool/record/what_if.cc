// SPDX-License-Identifier: Apache-2.0
// A what-if: the claims of a record, on its hosts, under other rules.
#include <algorithm>
#include <map>
#include <set>

#include "pool/convert/convert.h"
#include "pool/record/replay.h"

namespace farcall::pool {

namespace {

constexpr Ms kTurn = 1000;
constexpr size_t kMaxRounds = 100;  // of answers to one event

// How long each claim ran, and which never did, by what the record says followed.
class Runs {
 public:
  explicit Runs(const Recorded& record) {
    for (const v1::RecordedEvent& event : record.events) {
      v1::RecordedEffects effects;
      if (!effects.ParseFromString(event.effects())) continue;
      for (const v1::LogLine& line : effects.log()) Note(line, event.now_ms());
    }
  }
  // Of a claim that ran until it was released or its time was over; nullopt: to the end.
  std::optional<Ms> Of(const std::string& claim) const {
    auto found = lengths_.find(claim);
    return found == lengths_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  void Note(const v1::LogLine& line, Ms now) {
    if (line.kind() == "claim_bound" || line.kind() == "claim_active")
      begun_.try_emplace(line.claim(), now);
    if (line.kind() != "claim_releasing" && line.kind() != "claim_released" &&
        line.kind() != "claim_expired")
      return;
    if (auto begun = begun_.find(line.claim()); begun != begun_.end())
      lengths_.try_emplace(line.claim(), now - begun->second);
  }
  std::map<std::string, Ms> begun_, lengths_;
};

class Simulation {
 public:
  Simulation(const Recorded& record, const WhatIf& what)
      : record_(record), what_(what), runs_(record), core_(Made(record, what)) {
    fared_.sequencer = std::string(core_.sequencer().name());
    fared_.placer = what.placer;
    now_ = begun_ = record.snapshot.now_ms();
    for (const auto& [id, claim] : core_.claims())
      if (claim.state == ClaimState::kPending) Come(id);
  }

  Fared Run() {
    if (record_.events.empty()) RunOn();
    for (const v1::RecordedEvent& recorded : record_.events) {
      Until(recorded.now_ms());
      Take(recorded);
    }
    fared_.took = now_ - begun_;
    fared_.waiting = core_.pending();
    if (weighed_ms_ != 0) fared_.used_part /= static_cast<double>(weighed_ms_);
    return std::move(fared_);
  }

 private:
  static Core Made(const Recorded& record, const WhatIf& what) {
    v1::Snapshot snapshot = record.snapshot;
    snapshot.mutable_timing()->set_settle(0);  // its hosts report at once
    if (record.events.empty()) snapshot.mutable_timing()->set_suspect(kNever);
    snapshot.clear_reservations();  // times of day are left out
    for (std::string& value : *snapshot.mutable_claims()) {
      v1::Claim claim;
      if (!claim.ParseFromString(value)) continue;
      if (!what.placer.empty()) claim.mutable_request()->set_placer(what.placer);
      claim.mutable_request()->clear_begin();
      claim.mutable_request()->clear_reservation();
      value = claim.SerializeAsString();
    }
    return CoreOf(snapshot, what.sequencer);
  }

  void Come(const std::string& id) {
    came_.try_emplace(id, now_);
    ++fared_.claims;
  }

  void Do(const Event& event) {
    Effects effects = core_.Apply(event, now_);
    std::set<std::string> told;
    for (const LogEntry& entry : effects.log_entries) Note(entry);
    for (const auto& [host, push] : effects.pushes) told.insert(host);
    if (effects.answer) told.insert(std::get<HostReport>(event).host);
    waiting_to_report_.insert(told.begin(), told.end());
  }

  // Hosts that were told of something take it at once.
  void Settle() {
    for (size_t round = 0; round < kMaxRounds && !waiting_to_report_.empty(); ++round) {
      const std::set<std::string> hosts = std::exchange(waiting_to_report_, {});
      for (const std::string& name : hosts)
        if (HasNews(name)) Beat(name);
    }
    waiting_to_report_.clear();
  }

  bool HasNews(const std::string& name) const {
    const Host& host = core_.hosts().at(name);
    return std::any_of(host.claims.begin(), host.claims.end(), [&](const std::string& id) {
      const ClaimState state = core_.Find(id)->state;
      return state == ClaimState::kReserved || state == ClaimState::kReleasing ||
             state == ClaimState::kBound;
    });
  }

  void Note(const LogEntry& entry) {
    if (entry.kind == "claim_preempting") ++fared_.preempted;
    if (entry.kind != "claim_bound" && entry.kind != "claim_active") return;
    auto came = came_.find(entry.claim);
    if (came != came_.end() && placed_.insert(entry.claim).second) {
      ++fared_.placed;
      fared_.waits.push_back(now_ - came->second);
    }
    const Claim* claim = core_.Find(entry.claim);
    if (claim == nullptr || ran_in_[entry.claim] == claim->epoch) return;
    ran_in_[entry.claim] = claim->epoch;
    std::optional<Ms> length = runs_.Of(entry.claim);
    if (record_.events.empty()) length = what_.run_ms;
    if (length) ends_.emplace(now_ + *length, std::pair(entry.claim, claim->epoch));
  }

  // What the host holds is what it is granted.
  void Beat(const std::string& name) {
    HostReport& report = hosts_.at(name);
    ++report.beat;
    report.claims.clear();
    if (auto host = core_.hosts().find(name); host != core_.hosts().end())
      for (const std::string& id : host->second.claims) {
        const Claim& claim = *core_.Find(id);
        if (!IsGranted(claim.state)) continue;
        ReportedClaim told;
        told.claim = id;
        told.epoch = claim.epoch;
        told.sessions = 1;
        told.quota_revision = claim.quota_revision;
        report.claims.push_back(std::move(told));
      }
    Do(report);
  }

  // Of a snapshot: those that spoke then.
  void BeginHosts() {
    std::vector<std::string> names;
    std::set<std::string> silent;
    for (const std::string& value : record_.snapshot.hosts())
      if (v1::Host host;
          host.ParseFromString(value) && (host.state() == "lost" || host.state() == "suspect"))
        silent.insert(host.name());
    for (const auto& [name, host] : core_.hosts()) {
      if (silent.count(name) != 0) continue;
      HostReport& report = hosts_[name];
      report.host = name;
      report.incarnation = std::max<uint64_t>(host.instance, 1);
      report.endpoints = host.endpoints;
      report.gpus = host.gpus;
      for (Gpu& gpu : report.gpus) static_cast<GpuUse&>(gpu) = {};
      report.net_ceiling = host.net_ceiling;
      names.push_back(name);
    }
    for (const std::string& name : names) Beat(name);
    Settle();
  }

  // A snapshot, until all that may ever have a place has had it.
  void RunOn() {
    turn_ = std::max(kTurn, what_.run_ms / 100);
    BeginHosts();
    for (const auto& [id, claim] : core_.claims())
      if (HoldsCapacity(claim.state) && ran_in_.try_emplace(id, claim.epoch).second)
        ends_.emplace(now_ + what_.run_ms, std::pair(id, claim.epoch));
    while (!ends_.empty()) Until(std::max(now_ + turn_, ends_.begin()->first));
  }

  // Claims end, and the clock turns.
  void Until(Ms time) {
    while (now_ < time) {
      Ms next = std::min(time, now_ + turn_);
      if (!ends_.empty()) next = std::min(next, std::max(now_, ends_.begin()->first));
      Weigh(next - now_);
      now_ = next;
      while (!ends_.empty() && ends_.begin()->first <= now_) {
        const auto [id, epoch] = ends_.begin()->second;
        ends_.erase(ends_.begin());
        const Claim* claim = core_.Find(id);
        if (claim != nullptr && claim->epoch == epoch && HoldsCapacity(claim->state))
          Do(ReleaseClaim{id, "done", {}});
      }
      Do(Tick{});
      Settle();
    }
  }

  void Weigh(Ms passed) {
    double used = 0, all = 0;
    for (const auto& [name, state] : core_.projects())
      if (state.parent == nullptr) used += static_cast<double>(state.used.device_milli);
    for (const auto& [name, host] : core_.hosts())
      if (host.state == HostState::kReady)
        all += static_cast<double>(host.gpus.size()) * kWholeMilli;
    if (all == 0) return;
    fared_.used_part += std::min(1.0, used / all) * static_cast<double>(passed);
    weighed_ms_ += passed;
  }

  void Take(const v1::RecordedEvent& recorded) {
    Result<Event> event = FromProto(recorded);
    if (!event.ok()) return;
    if (std::holds_alternative<Tick>(*event) || std::holds_alternative<RenewClaim>(*event) ||
        std::holds_alternative<MakeReservation>(*event) ||
        std::holds_alternative<EndReservation>(*event))
      return;
    if (auto* report = std::get_if<HostReport>(&*event)) {
      HostReport& host = hosts_[report->host];
      const uint64_t beat = host.incarnation == report->incarnation ? host.beat : 0;
      host = *report;
      host.beat = beat;
      Beat(report->host);
    } else if (const auto* release = std::get_if<ReleaseClaim>(&*event)) {
      // One that had a place ends when it has run for as long.
      if (!runs_.Of(release->id)) Do(ReleaseClaim{release->id, release->reason, {}});
    } else if (auto* request = std::get_if<RequestClaim>(&*event)) {
      if (!what_.placer.empty()) request->ask.placer = *PlacerOf(what_.placer);
      request->ask.begin_unix = 0;  // times of day are left out
      request->ask.reservation.clear();
      if (core_.Find(request->id) == nullptr)
        Come(request->members == 0 ? request->id : request->id + "-0");
      Do(*event);
    } else {
      if (auto* host = std::get_if<SetHost>(&*event)) host->if_revision.reset();
      if (auto* project = std::get_if<SetProject>(&*event)) project->if_revision.reset();
      if (auto* project = std::get_if<DeleteProject>(&*event)) project->if_revision.reset();
      if (auto* group = std::get_if<SetGroup>(&*event)) {
        group->if_revision.reset();
        if (!what_.sequencer.empty()) group->group.sequencer.clear();
      }
      if (auto* group = std::get_if<DeleteGroup>(&*event)) group->if_revision.reset();
      if (auto* change = std::get_if<ChangeClaim>(&*event)) change->if_revision.reset();
      Do(*event);
    }
    Settle();
  }

  const Recorded& record_;
  const WhatIf& what_;
  const Runs runs_;
  Core core_;
  Ms now_ = 0, begun_ = 0, weighed_ms_ = 0, turn_ = kTurn;
  std::map<std::string, HostReport> hosts_;
  std::set<std::string> waiting_to_report_, placed_;
  std::map<std::string, Ms> came_;
  std::map<std::string, uint64_t> ran_in_;  // the epoch whose end is known
  std::multimap<Ms, std::pair<std::string, uint64_t>> ends_;
  Fared fared_;
};

}  // namespace

Result<Fared> Simulate(const Recorded& record, const WhatIf& what) {
  if (!what.sequencer.empty() && MakeSequencer(what.sequencer) == nullptr)
    return Status(Code::kInvalid, "sequencer '" + what.sequencer + "': fifo, lifo, drf or fair");
  if (what.run_ms < kTurn)
    return Status(Code::kInvalid, "a run of " + std::to_string(what.run_ms) + " ms: at least 1000");
  if (!PlacerOf(what.placer))
    return Status(Code::kInvalid, "placer '" + what.placer + "': " + PlacersText());
  return Simulation(record, what).Run();
}

}  // namespace farcall::pool
