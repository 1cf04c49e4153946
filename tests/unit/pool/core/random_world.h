// SPDX-License-Identifier: Apache-2.0
// The pool in a simulated world: hosts with their ledgers, a network that loses, doubles and
// delays, controllers that die between deciding and storing, clocks that go wrong by some percent.
// What docs/internals/pool.md promises is checked after every step.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pool/core/core.h"
#include "tests/unit/pool/core/sim_host.h"
#include "tests/unit/quota/properties.h"

namespace farcall::pool {

inline constexpr uint64_t kWorldGiB = 1ull << 30;
struct ReportInFlight {
  uint64_t controller = 0;  // its term: a stream is to one controller
  HostReport report;
};
struct AnswerInFlight {
  std::string host;
  uint64_t term = 0;
  Answer answer;
};
struct Token {
  std::string claim, host;
  uint64_t epoch = 0;
};

inline constexpr const char* kWorldProjects[] = {"default", "p", "p/q", "r"};
inline constexpr const char* kWorldGroups[] = {"default", "g", "h"};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed), is_rated_(seed >> 40 & 1), is_lent_(seed >> 41 & 1) {
    size_t hosts = 1 + Below(3);
    for (size_t i = 0; i < hosts; ++i) {
      SimHost host;
      host.name = std::string(1, static_cast<char>('a' + i));
      host.clock = 0.93 + 0.001 * static_cast<double>(Below(140));
      size_t gpus = 1 + Below(3);
      bool lies = Below(6) == 0;
      for (size_t g = 0; g < gpus; ++g) {
        host.real_bytes.push_back((2 + Below(7)) * kWorldGiB);
        host.told_bytes.push_back(host.real_bytes.back() * (lies ? 2 : 1));
      }
      host.bounds.park_bytes = Below(3) * 6 * kWorldGiB;
      if (is_lent_) host.bounds.oversubscribe_milli = AnyFactor();
      host.ledger = std::make_unique<quota::ClaimLedger>(host.real_bytes, host.bounds);
      hosts_[host.name] = std::move(host);
    }
    sequencer_.name = SequencerNames()[Below(4)];
    // So that claims that leave for others are many.
    is_busy_ = Below(2) == 0;
    if (Below(2) == 0) {
      timing_.min_run = static_cast<Ms>(Below(2) * 1000);
      timing_.preempt_grace = static_cast<Ms>(Below(3) * 1000);
      timing_.settle = 0;
    }
    Start();
    for (const char* name : kWorldProjects) SetAnyProject(name);
    if (Below(2) == 0) SetAnyGroup();
    if (!is_rated_) return;
    SetGroup set;
    set.group.name = kDefaultGroup;
    set.group.tflops = {{"even", 8000}, {"odd", 12'000}};
    Do(set);
  }

  void Step() {
    if (is_busy_) Exchange();
    switch (Below(23)) {
      case 22:
        if (Below(3) == 0)
          Do(DeleteGroup{AnyGroup(), {}});
        else
          SetAnyGroup();
        break;
      case 20:
        Reserve();
        break;
      case 21:
        EndAnyReservation();
        break;
      case 19:
        SetAnyLabels();
        break;
      case 18:
        SetAnyProject(kWorldProjects[Below(std::size(kWorldProjects))]);
        break;
      case 0:
      case 1:
        Request();
        break;
      case 2:
        Release();
        break;
      case 3:
      case 4:
      case 5:
        Beat(AnyHost());
        break;
      case 6:
      case 7:
      case 8:
      case 9:
        Deliver();
        break;
      case 10:
        Advance(static_cast<Ms>(Below(4) == 0 ? Below(70'000) : Below(3000)));
        break;
      case 11:
        if (Below(3) == 0) Start();
        break;
      case 12:
        Open();
        break;
      case 13:
        Close();
        break;
      case 14:
        SetAnyHost();
        break;
      case 15:
        if (Below(4) == 0) RestartHost(AnyHost());
        break;
      case 16:
        Change();
        break;
      case 17:
        FinishChanges(AnyHost());
        FinishParkings(AnyHost());
        break;
    }
    Check();
  }

  // Nothing is lost any more and everything is given back: so must all capacity be.
  void Heal() {
    is_calm_ = true;
    reports_.clear();
    answers_.clear();
    std::vector<std::string> ids;
    for (const auto& [id, claim] : core_->claims()) ids.push_back(id);
    for (const std::string& id : ids) Do(ReleaseClaim{id, "the end", {}});
    for (int sweep = 0; sweep < 2; ++sweep) {
      for (auto& [name, host] : hosts_) {
        Beat(host);
        Deliver(0, false);
        while (!answers_.empty()) Deliver(0, true);
        for (int round = 0; round < 4; ++round) FinishChanges(host), FinishParkings(host);
        Check();
      }
      Do(Tick{});
    }
    for (const auto& [id, claim] : core_->claims()) {
      if (!IsOver(claim.state))
        RC_FAIL(id + " is " + std::string(ToText(claim.state)) + " on " + claim.host + " " +
                std::string(ToText(core_->hosts().at(claim.host).state)) + ": " + claim.reason);
    }
    for (const auto& [name, host] : core_->hosts())
      for (const Gpu& gpu : host.gpus) RC_ASSERT(gpu.used_bytes == 0u);
    for (const auto& [name, host] : hosts_) RC_ASSERT(host.ledger->held().empty());
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  SimHost& AnyHost() {
    return std::next(hosts_.begin(), static_cast<long>(Below(hosts_.size())))->second;
  }

  // A controller over what was stored; the one before is gone, its answers may still be under way.
  void Start() {
    ++term_;
    reports_.clear();
    late_.clear();
    core_ = std::make_unique<Core>(timing_, Limits{}, sequencer_);
    std::vector<Claim> claims;
    std::vector<Host> hosts;
    for (const auto& [id, claim] : stored_claims_) claims.push_back(claim);
    for (const auto& [id, host] : stored_hosts_) hosts.push_back(host);
    std::vector<Project> projects;
    for (const auto& [name, project] : stored_projects_) projects.push_back(project);
    std::vector<Reservation> reservations;
    for (const auto& [name, reservation] : stored_reservations_)
      reservations.push_back(reservation);
    for (Reservation& reservation : reservations) reservation.has_begun = false;  // not stored
    std::vector<Group> groups;
    for (const auto& [name, group] : stored_groups_) groups.push_back(group);
    core_->Load(std::move(claims), std::move(hosts), now_, {}, std::move(projects),
                std::move(reservations), std::move(groups));
  }

  // False: it died before it had stored what it decided, and a new one has started.
  bool Do(const Event& event, Effects* out = nullptr) {
    Effects effects = core_->Apply(event, now_);
    RC_ASSERT(core_->Broken() == "");
    if (!is_calm_ && Below(60) == 0) {
      Start();
      return false;
    }
    CheckLimits(effects);
    for (const std::string& name : effects.projects)
      stored_projects_[name] = core_->FindProject(name)->project;
    for (const std::string& name : effects.reservations) {
      auto found = core_->reservations().find(name);
      if (found == core_->reservations().end())
        stored_reservations_.erase(name);
      else
        stored_reservations_[name] = found->second;
    }
    for (const std::string& name : effects.groups) {
      const GroupState* state = core_->FindGroup(name);
      if (state == nullptr)
        stored_groups_.erase(name);
      else
        stored_groups_[name] = state->group;
    }
    for (const std::string& id : effects.claims) stored_claims_[id] = *core_->Find(id);
    // What hosts told may be stored later, or never.
    late_.insert(effects.notified_claims.begin(), effects.notified_claims.end());
    if (Below(4) == 0) {
      for (const std::string& id : late_)
        if (const Claim* claim = core_->Find(id)) stored_claims_[id] = *claim;
      late_.clear();
    }
    for (const auto& [host, push] : effects.pushes) answers_.push_back({host, term_, push});
    for (const auto& [id, tenant] : effects.erased_claims) stored_claims_.erase(id);
    for (const std::string& id : effects.hosts) stored_hosts_[id] = core_->hosts().at(id);
    if (out != nullptr) *out = std::move(effects);
    return true;
  }

  void Request();

  int64_t UnixMs() const { return 1'000'000'000'000 + now_ + set_by_; }

  void Reserve();

  void EndAnyReservation() { Do(EndReservation{"r" + std::to_string(Below(3))}); }

  // After 60 s a gang is bound, or its hosts have been asked to let go.
  void CheckGangs();

  // What has found a place has exceeded no limit; nobody leaves for a claim that may not have it.
  void CheckLimits(const Effects& effects);

  void SetAnyProject(const std::string& name);
  std::string AnyGroup() { return kWorldGroups[Below(std::size(kWorldGroups))]; }
  void SetAnyGroup();
  void AskForTflops(Ask* ask);
  Placer AnyPlacer();

  void Release() {
    if (core_->claims().empty()) return;
    auto claim =
        std::next(core_->claims().begin(), static_cast<long>(Below(core_->claims().size())));
    Do(ReleaseClaim{claim->first, "asked for", {}});
  }

  // Its host may have to wait for sessions to give memory back, or refuse.
  void Change() {
    if (core_->claims().empty()) return;
    auto claim =
        std::next(core_->claims().begin(), static_cast<long>(Below(core_->claims().size())));
    ChangeClaim change;
    change.id = claim->first;
    if (Below(2) == 0) change.memory_bytes = Below(8) == 0 ? 0 : (1 + Below(6)) * kWorldGiB / 2;
    if (Below(2) == 0) change.share_milli = static_cast<uint32_t>(Below(3) * 250);
    if (claim->second.ask.gflops != 0 && now_ % 2 == 0)
      change.share_milli.reset();  // it is refused
    if (Below(4) == 0) change.queue_priority = static_cast<int32_t>(Below(4)) - 1;
    if (Below(4) == 0) change.preemptible = Below(2) == 0;
    if (Below(4) == 0) change.lifetime_ms = static_cast<Ms>(Below(90'000));
    Do(change);
  }

  // A change that a host has begun with goes well, or not.
  void FinishChanges(SimHost& host) {
    for (const std::string& id : host.ledger->TakeChanges()) host.changing.push_back(id);
    if (host.changing.empty() || Below(3) == 0) return;
    std::string id = host.changing.back();
    host.changing.pop_back();
    auto held = host.ledger->held().find(id);
    if (held == host.ledger->held().end() || !held->second.wanted) return;
    host.ledger->FinishChange(id, held->second.wanted->quota_revision,
                              Below(3) == 0 ? "it holds more" : "");
  }

  // What leaves a host's devices has left, or stays for some reason.
  void FinishParkings(SimHost& host) {
    for (const auto& parking : host.ledger->TakeParkings())
      if (parking.leaves) host.parking.push_back(parking.claim);
    if (host.parking.empty() || Below(3) == 0) return;
    const std::string id = host.parking.back();
    host.parking.pop_back();
    host.ledger->FinishParking(id, Below(4) == 0 ? "its work did not end" : "");
  }

  void SetAnyLabels() { Do(SetLabels{AnyHost().name, {{"zone", Below(2) == 0 ? "a" : "b"}}, {}}); }

  void SetAnyHost() {
    auto verb = static_cast<SetHost::Verb>(Below(2) == 0 ? 2 : Below(3));
    Do(SetHost{AnyHost().name, verb, {}});
  }

  void Beat(SimHost& host) { reports_.push_back({term_, host.Report(now_)}); }

  void Deliver() {
    bool answer = Below(2) == 0;
    size_t count = answer ? answers_.size() : reports_.size();
    if (count == 0) return;
    size_t at = Below(count);
    uint64_t luck = Below(10);
    if (luck == 0) {  // lost
      if (answer)
        answers_.erase(answers_.begin() + static_cast<long>(at));
      else
        reports_.erase(reports_.begin() + static_cast<long>(at));
      return;
    }
    if (luck == 1) {  // comes twice
      if (answer)
        answers_.push_back(answers_[at]);
      else
        reports_.push_back(reports_[at]);
    }
    Deliver(at, answer);
  }

  void Deliver(size_t at, bool answer) {
    if (answer) {
      AnswerInFlight one = answers_[at];
      answers_.erase(answers_.begin() + static_cast<long>(at));
      return OnAnswer(one);
    }
    ReportInFlight one = reports_[at];
    reports_.erase(reports_.begin() + static_cast<long>(at));
    if (one.controller != term_) return;
    Effects effects;
    if (!Do(one.report, &effects) || !effects.answer) return;
    answers_.push_back({one.report.host, term_, *effects.answer});
  }

  void OnAnswer(const AnswerInFlight& answer);

  void Advance(Ms by);

  // All hosts report and are answered, programs come, and some time passes: so claims get far.
  void Exchange() {
    for (auto& [name, host] : hosts_) {
      Beat(host);
      while (!reports_.empty()) Deliver(0, false);
      while (!answers_.empty()) Deliver(0, true);
      FinishParkings(host);
    }
    Open();
    Advance(static_cast<Ms>(Below(3) * 1000));
    Check();
  }

  // A token of now, or one that was minted some time ago.
  void Open();

  void Close();

  void RestartHost(SimHost& host) {
    ++host.incarnation;
    host.beat = 0;
    host.highest_term = 0;
    host.sessions.clear();
    host.changing.clear();
    // Its stream ends after all that came by it.
    std::erase_if(reports_, [&](const ReportInFlight& r) { return r.report.host == host.name; });
    host.parking.clear();
    if (is_lent_) host.bounds.oversubscribe_milli = AnyFactor();
    host.ledger = std::make_unique<quota::ClaimLedger>(host.real_bytes, host.bounds);
    if (auto known = core_->hosts().find(host.name); known != core_->hosts().end())
      Do(HostClosed{host.name, known->second.incarnation});
  }

  void Check();
  uint32_t AnyFactor() { return 1000 + static_cast<uint32_t>(Below(3)) * 500; }

  std::mt19937_64 random_;
  Ms now_ = 1;
  bool is_calm_ = false, is_busy_ = false;
  const bool is_rated_;  // its claims ask for TFLOPS, too
  const bool is_lent_;   // its hosts and groups lend memory more than once
  uint64_t term_ = 0, last_id_ = 0;
  std::set<std::string> late_;
  std::unique_ptr<Core> core_;
  std::map<std::string, Claim> stored_claims_;
  std::map<std::string, Host> stored_hosts_;
  std::map<std::string, Project> stored_projects_;
  std::map<std::string, Reservation> stored_reservations_;
  std::map<std::string, Group> stored_groups_;
  int64_t set_by_ = 0;                      // milliseconds, of the clock of day
  std::map<std::string, uint64_t> placed_;  // the epochs that were looked at
  SequencerPolicy sequencer_;
  Timing timing_;
  std::map<std::string, SimHost> hosts_;
  std::vector<ReportInFlight> reports_;
  std::vector<AnswerInFlight> answers_;
  std::vector<Token> tokens_;
  std::map<std::string, std::map<std::string, uint64_t>> opened_;
};

}  // namespace farcall::pool
