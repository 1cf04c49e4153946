// SPDX-License-Identifier: Apache-2.0
// The controller while its store takes nothing. What the core decided last is not stored, so nobody
// may hear of it: hosts are granted what they were granted before, again and again, and so end no
// session. The core's clock stands still, so nothing expires either.
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "pool/controller/controller.h"
#include "proto/log_line.h"

namespace farcall::pool {

namespace {

constexpr int kExitFenced = 3;
constexpr Ms kRetry = 500, kSayAgain = 60'000;

Refusal NoStore(const std::string& why) {
  return {RefusalCode::kUnavailable, "nothing can be changed now: " + why, "",
          "make room on the controller's disk; what runs goes on"};
}

bool ChangesSomething(const Event& event) {
  return !std::holds_alternative<HostReport>(event) && !std::holds_alternative<HostClosed>(event) &&
         !std::holds_alternative<RenewClaim>(event) && !std::holds_alternative<Tick>(event);
}

}  // namespace

void Controller::EndFenced(const Status& why) {
  // What was decided was told to nobody: the other controller has the truth.
  LogLine(LogSeverity::kError, "pool", why.message() + "; ending (sessions go on)");
  std::fflush(nullptr);
  _exit(kExitFenced);
}

void Controller::SetStoreFault(const std::string& why) {
  std::lock_guard lock(mutex_);
  store_fault_ = why;
}

void Controller::StartFreeze(const std::vector<Item>& items, std::vector<Effects>* all,
                             Touched touched, const Status& why) {
  Ms since = SteadyMs(), at = Now();
  freeze_ = Freeze{};
  freeze_->at = at;
  freeze_->since = freeze_->said = since;
  freeze_->retry = since + kRetry;
  freeze_->unsaved = std::move(touched);
  freeze_->unsaved.pushes.clear();
  SetStoreFault(why.message());
  LogLine(LogSeverity::kError, "pool",
          why.message() + "; changes are refused until it has room, sessions go on");
  Note({{"store_frozen", "", "", why.message()}});
  for (size_t i = 0; i < items.size(); ++i) {
    Effects& effects = (*all)[i];
    for (LogEntry& entry : effects.log_entries) freeze_->log_entries.push_back(std::move(entry));
    if (!items[i].event) continue;
    const Event& event = *items[i].event;
    // Its client is refused: what was made for it goes, and nobody has heard of it.
    if (const auto* made = std::get_if<RequestClaim>(&event);
        made != nullptr && !effects.refusal && effects.claim == made->id)
      Gather(ApplyCore(ReleaseClaim{made->id, "the store had no room for it", {}}, at),
             &freeze_->unsaved);
    if (const auto* report = std::get_if<HostReport>(&event); report != nullptr)
      effects = AnswerFrozen(*report);
    else if (ChangesSomething(event))
      effects.refusal = NoStore(why.message());
  }
  freeze_->unsaved.pushes.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].read) items[i].read(core_, at);
    if (items[i].done) items[i].done((*all)[i]);
  }
}

bool Controller::Thaw(std::vector<Item>* items) {
  Ms now = SteadyMs();
  if (now < freeze_->retry) return false;
  freeze_->retry = now + kRetry;
  store_->MakeRoom();
  Status stored = store_->Commit(Writes(freeze_->unsaved, freeze_->at));
  if (stored.code() == Code::kRefused) EndFenced(stored);
  if (!stored.ok()) {
    if (now >= freeze_->said + kSayAgain) {
      freeze_->said = now;
      LogLine(LogSeverity::kError, "pool", stored.message() + "; changes are still refused");
    }
    return false;
  }
  audit_.Stored();
  stood_still_ += now - freeze_->since;
  Freeze over = std::move(*freeze_);
  freeze_.reset();
  SetStoreFault("");
  LogLine(LogSeverity::kInfo, "pool", "the pool's store takes changes again");
  Publish(over.unsaved, Now());
  Note(over.log_entries);
  Note({{"store_thawed", "", "", ""}});
  std::vector<Item> first = std::move(over.later);
  first.push_back({Event(Regranted{std::move(over.answered)}), nullptr, nullptr});
  items->insert(items->begin(), std::make_move_iterator(first.begin()),
                std::make_move_iterator(first.end()));
  return true;
}

void Controller::HandleFrozen(std::vector<Item> items) {
  // Another controller may have room.
  Status term = store_->Commit({});
  if (term.code() == Code::kRefused) EndFenced(term);
  for (Item& item : items) {
    if (item.read) item.read(core_, freeze_->at);
    if (!item.event) continue;
    Effects effects = ApplyFrozen(*item.event);
    if (!term.ok() && effects.answer) {
      effects.answer.reset();  // whether this is still the pool's controller, nobody knows
      effects.refusal = NoStore(term.message());
    }
    if (item.done) item.done(effects);
  }
}

Effects Controller::ApplyFrozen(const Event& event) {
  if (const auto* report = std::get_if<HostReport>(&event)) return AnswerFrozen(*report);
  if (std::holds_alternative<RenewClaim>(event)) return ApplyCore(event, freeze_->at);
  Effects effects;
  if (std::holds_alternative<HostClosed>(event))
    freeze_->later.push_back({event, nullptr, nullptr});
  else if (ChangesSomething(event))
    effects.refusal = NoStore(store_fault());
  return effects;
}

Effects Controller::AnswerFrozen(const HostReport& report) {
  Effects effects;
  auto host = core_.hosts().find(report.host);
  auto told = answers_.find(report.host);
  if (host == core_.hosts().end() || told == answers_.end() ||
      told->second.incarnation != report.incarnation) {
    effects.refusal = NoStore(store_fault());
    return effects;
  }
  Answer answer{report.incarnation, report.beat, 1, {}, {}};
  for (const Grant& grant : told->second.grants) {
    const Claim* claim = core_.Find(grant.claim);
    // What the host itself has let go may be another's by now.
    if (claim != nullptr && HasHost(claim->state) && claim->host == report.host &&
        claim->epoch == grant.epoch)
      answer.grants.push_back(grant);
  }
  freeze_->answered.insert(report.host);
  effects.answer = std::move(answer);
  return effects;
}

}  // namespace farcall::pool
