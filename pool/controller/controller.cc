// SPDX-License-Identifier: Apache-2.0
#include "pool/controller/controller.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "pool/convert/convert.h"
#include "pool/convert/convert_accounts.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxAtOnce = 64;
constexpr std::chrono::milliseconds kTick(200);
constexpr size_t kMaxEvents = 10'000;

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Of "NUMBER HASH".
AuditPoint PointOf(const std::string& text) {
  AuditPoint point;
  const size_t space = std::min(text.find(' '), text.size());
  point.number = std::strtoull(text.c_str(), nullptr, 10);
  point.hash = text.substr(std::min(space + 1, text.size()));
  return point;
}

}  // namespace

Ms Controller::SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Controller::Controller(std::unique_ptr<Store> store, const Loaded& loaded, const Timing& timing,
                       const Limits& limits, const SequencerPolicy& sequencer)
    : store_(std::move(store)),
      term_(loaded.term),
      snapshot_(SnapshotOf(loaded, timing, limits, sequencer, SteadyMs())),
      core_(CoreOf(snapshot_)) {
  audit_.Load(PointOf(loaded.audit_before), PointOf(loaded.audit_newest));
  // No number of another controller's life is one of this.
  last_change_ = term_ << 32;
  for (const auto& [name, host] : core_.hosts()) SetCredential(host);
  for (const auto& [name, user] : core_.accounts().users()) accounts_.Set(name, &user);
  for (const auto& [id, token] : core_.accounts().tokens()) accounts_.SetToken(id, &token);
  for (const auto& [id, claim] : core_.claims())
    if (std::optional<Seat> seat = SeatOf(claim)) seats_[id] = std::move(*seat);
}

Controller::~Controller() {
  Stop();
}

Status Controller::Record(const std::string& path) {
  Result<std::unique_ptr<RecordWriter>> writer = RecordWriter::Open(path, snapshot_);
  if (writer.ok()) record_ = std::move(*writer);
  return writer.ok() ? Status() : writer.status();
}

Effects Controller::ApplyCore(const Event& event, Ms now) {
  Effects effects = core_.Apply(event, now);
  if (record_ != nullptr) record_->Write(event, effects, core_, now);
  return effects;
}

void Controller::Start() {
  snapshot_.Clear();
  thread_ = std::thread([this] { Loop(); });
}

void Controller::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  came_.notify_all();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Controller::Loop() {
  auto next_tick = std::chrono::steady_clock::now();
  while (true) {
    last_turn_ = SteadyMs();
    std::vector<Item> items;
    {
      std::unique_lock lock(mutex_);
      came_.wait_until(lock, next_tick, [this] { return !queue_.empty() || stopping_; });
      if (stopping_ && queue_.empty()) return;
      while (!queue_.empty() && items.size() < kMaxAtOnce) {
        items.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      next_tick = std::chrono::steady_clock::now() + kTick;
      items.push_back({Tick{UnixMs()}, nullptr, nullptr});
    }
    Handle(std::move(items));
  }
}

Controller::Touched Controller::ApplyAll(const std::vector<Item>& items, std::vector<Effects>* all,
                                         Ms now) {
  Touched touched;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].event) continue;
    touched.has_tick = touched.has_tick || std::holds_alternative<Tick>(*items[i].event);
    (*all)[i] = ApplyCore(*items[i].event, now);
    late_.insert((*all)[i].notified_claims.begin(), (*all)[i].notified_claims.end());
    Gather((*all)[i], &touched);
  }
  return touched;
}

void Controller::Gather(const Effects& effects, Touched* touched) {
  touched->claims.insert(effects.claims.begin(), effects.claims.end());
  touched->hosts.insert(effects.hosts.begin(), effects.hosts.end());
  touched->accounts.Add(effects.accounts);
  touched->join_tokens.insert(effects.join_tokens.begin(), effects.join_tokens.end());
  touched->projects.insert(effects.projects.begin(), effects.projects.end());
  touched->reservations.insert(effects.reservations.begin(), effects.reservations.end());
  touched->groups.insert(effects.groups.begin(), effects.groups.end());
  touched->erased.insert(effects.erased_claims.begin(), effects.erased_claims.end());
  for (const auto* shown : {&effects.claims, &effects.notified_claims, &effects.shown_claims})
    touched->shown_claims.insert(shown->begin(), shown->end());
  for (const auto* shown : {&effects.hosts, &effects.shown_hosts})
    touched->shown_hosts.insert(shown->begin(), shown->end());
  // The latest says all.
  for (const auto& [host, answer] : effects.pushes) touched->pushes[host] = answer;
}

Batch Controller::Writes(Touched& touched, Ms now) {
  if (touched.has_tick || !touched.claims.empty() || !touched.hosts.empty() ||
      !touched.erased.empty() || !touched.join_tokens.empty() || !touched.projects.empty() ||
      !touched.reservations.empty() || !touched.groups.empty())
    touched.claims.merge(std::exchange(late_, {}));
  Batch batch;
  for (const std::string& id : touched.claims)
    if (const Claim* claim = core_.Find(id))
      batch.writes.push_back({"claim", id, ToProto(*claim, nullptr).SerializeAsString()});
  for (const auto& [id, tenant] : touched.erased)
    if (core_.Find(id) == nullptr) batch.writes.push_back({"claim", id, ""});
  for (const std::string& name : touched.hosts) {
    const Host& host = core_.hosts().at(name);
    pb::Host stored = ToProto(host, now);
    stored.set_credential_hash(host.credential);
    batch.writes.push_back({"host", name, stored.SerializeAsString()});
  }
  for (const std::string& hash : touched.join_tokens) {
    auto token = core_.join_tokens().find(hash);
    const bool is_there = token != core_.join_tokens().end();
    batch.writes.push_back(
        {"join_token", hash, is_there ? ToStored(hash, token->second).SerializeAsString() : ""});
  }
  for (const std::string& name : touched.projects) {
    const ProjectState* state = core_.FindProject(name);
    batch.writes.push_back(
        {"project", name, state == nullptr ? "" : ToStored(*state).SerializeAsString()});
  }
  for (const std::string& name : touched.reservations) {
    auto found = core_.reservations().find(name);
    const bool is_there = found != core_.reservations().end();
    batch.writes.push_back(
        {"reservation", name, is_there ? ToProto(found->second).SerializeAsString() : ""});
  }
  for (const std::string& name : touched.groups) {
    const GroupState* state = core_.FindGroup(name);
    batch.writes.push_back(
        {"pool_group", name, state == nullptr ? "" : ToProto(state->group).SerializeAsString()});
  }
  for (const std::string& name : touched.accounts.users) {
    const User* user = core_.accounts().FindUser(name);
    batch.writes.push_back({"user", name, user == nullptr ? "" : ToStored(*user)});
  }
  for (const std::string& id : touched.accounts.tokens) {
    const AccessToken* token = core_.accounts().FindToken(id);
    batch.writes.push_back({"token", id, token == nullptr ? "" : ToStored(*token)});
  }
  audit_.Writes(*store_, &batch);
  return batch;
}

Controller::AuditPage Controller::ReadAudit(uint64_t after, uint32_t limit) {
  AuditPage page;
  // On the thread that has the store.
  Read([&](const Core&, Ms) {
    page = {audit_.before(), audit_.newest(), store_->AuditAfter(after, limit)};
  });
  return page;
}

void Controller::Publish(const AccountChanges& changes) {
  for (const std::string& name : changes.users)
    accounts_.Set(name, core_.accounts().FindUser(name));
  for (const std::string& id : changes.tokens)
    accounts_.SetToken(id, core_.accounts().FindToken(id));
}

Ms Controller::Now() const {
  return freeze_ ? freeze_->at : SteadyMs() - stood_still_;
}

void Controller::Handle(std::vector<Item> items) {
  if (freeze_ && !Thaw(&items)) return HandleFrozen(std::move(items));
  Ms now = Now();
  std::vector<Effects> all(items.size());
  Touched touched = ApplyAll(items, &all, now);
  Status stored = store_->Commit(Writes(touched, now));
  if (stored.code() == Code::kRefused) EndFenced(stored);
  if (!stored.ok()) return StartFreeze(items, &all, std::move(touched), stored);
  audit_.Stored();
  Publish(touched, now);
  for (size_t i = 0; i < items.size(); ++i) {
    Note(all[i].log_entries);
    if (items[i].event && all[i].answer)
      Answered(*all[i].answer, std::get<HostReport>(*items[i].event).host);
  }
  for (const auto& [host, answer] : touched.pushes) Answered(answer, host);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].read) items[i].read(core_, now);
    if (items[i].done) items[i].done(all[i]);
  }
  if (push_)
    for (const auto& [host, answer] : touched.pushes) push_(host, answer);
}

void Controller::Answered(const Answer& answer, const std::string& host) {
  answers_[host] = answer;
}

std::optional<Controller::Seat> Controller::SeatOf(const Claim& claim) const {
  auto host = core_.hosts().find(claim.host);
  if (!IsUsable(claim.state) || host == core_.hosts().end()) return std::nullopt;
  return Seat{claim.id,    claim.tenant,          ProjectOf(claim),      claim.host,
              claim.epoch, host->second.instance, host->second.endpoints};
}

void Controller::Publish(const Touched& touched, Ms now) {
  Publish(touched.accounts);
  std::set<std::string> moved = touched.shown_claims;
  for (const std::string& name : touched.hosts) {  // its endpoints may be others
    const Host& host = core_.hosts().at(name);
    moved.insert(host.claims.begin(), host.claims.end());
  }
  {
    std::lock_guard lock(seats_mutex_);
    for (const std::string& name : touched.hosts) SetCredential(core_.hosts().at(name));
    for (const std::string& id : moved) {
      const Claim* claim = core_.Find(id);
      std::optional<Seat> seat = claim == nullptr ? std::nullopt : SeatOf(*claim);
      if (seat)
        seats_[id] = std::move(*seat);
      else
        seats_.erase(id);
    }
  }
  std::lock_guard lock(mutex_);
  auto add = [&](const char* kind) {
    auto change = std::make_shared<v1::Change>();
    change->set_number(++last_change_);
    change->set_kind(kind);
    change_log_.push_back(change);
    if (change_log_.size() > kMaxEvents) change_log_.pop_front();
    return change;
  };
  for (const std::string& id : touched.shown_claims) {
    const Claim* claim = core_.Find(id);
    if (claim == nullptr) continue;
    auto host = core_.hosts().find(claim->host);
    *add("claim")->mutable_claim() =
        ToProto(*claim, host == core_.hosts().end() ? nullptr : &host->second);
  }
  for (const auto& [id, tenant] : touched.erased) {
    if (core_.Find(id) != nullptr) continue;
    v1::Claim* gone = add("claim_gone")->mutable_claim();
    gone->set_id(id);
    gone->set_tenant(tenant);
  }
  for (const std::string& name : touched.shown_hosts)
    *add("host")->mutable_host() = ToProto(core_.hosts().at(name), now);
  if (!touched.shown_claims.empty() || !touched.shown_hosts.empty() || !touched.erased.empty())
    ++changes_;
  changed_.notify_all();
}

std::optional<Controller::Seat> Controller::FindSeat(const std::string& id) const {
  std::shared_lock lock(seats_mutex_);
  auto found = seats_.find(id);
  return found == seats_.end() ? std::nullopt : std::optional(found->second);
}

void Controller::SetCredential(const Host& host) {
  std::string& known = credentials_[host.name];
  if (known == host.credential) return;
  hosts_of_.erase(known);
  known = host.credential;
  if (!known.empty()) hosts_of_[known] = host.name;
}

std::optional<std::string> Controller::HostOf(const std::string& credential_hash) const {
  std::shared_lock lock(seats_mutex_);
  auto found = hosts_of_.find(credential_hash);
  return found == hosts_of_.end() ? std::nullopt : std::optional(found->second);
}

uint64_t Controller::LastChange() {
  std::lock_guard lock(mutex_);
  return last_change_;
}

std::string Controller::store_fault() {
  std::lock_guard lock(mutex_);
  return store_fault_;
}

bool Controller::is_stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

std::optional<Controller::Changes> Controller::ChangesAfter(uint64_t number, Ms longest) {
  std::unique_lock lock(mutex_);
  uint64_t first = last_change_ - change_log_.size();  // before the oldest that is kept
  if (number < first || number > last_change_) return std::nullopt;
  changed_.wait_for(lock, std::chrono::milliseconds(longest),
                    [&] { return last_change_ > number || stopping_; });
  first = last_change_ - change_log_.size();
  if (number < first) return std::nullopt;
  return Changes(change_log_.begin() + static_cast<long>(number - first), change_log_.end());
}

void Controller::Note(const std::vector<LogEntry>& log_entries) {
  if (log_entries.empty()) return;
  std::lock_guard lock(mutex_);
  for (const LogEntry& entry : log_entries) {
    events_.push_back({{}, entry.tenant});
    v1::Event& event = events_.back().event;
    event.set_number(++last_event_);
    event.set_time_ms(UnixMs());
    event.set_kind(entry.kind);
    event.set_claim(entry.claim);
    event.set_host(entry.host);
    event.set_text(entry.text);
    if (events_.size() > kMaxEvents) events_.pop_front();
  }
  changed_.notify_all();
}

void Controller::Post(Event event, Done done) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back({std::move(event), nullptr, std::move(done)});
  }
  came_.notify_one();
}

Effects Controller::Apply(Event event) {
  auto answer = std::make_shared<std::promise<Effects>>();
  std::future<Effects> future = answer->get_future();
  Post(std::move(event), [answer](Effects& effects) { answer->set_value(std::move(effects)); });
  answer.reset();
  try {
    return future.get();
  } catch (const std::future_error&) {  // it is ending and has dropped the question
    Effects effects;
    effects.refusal = Refusal{RefusalCode::kConflict, "the controller is ending", "", "try again"};
    return effects;
  }
}

void Controller::Read(const std::function<void(const Core&, Ms)>& use) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back({std::nullopt,
                      [&use, done](const Core& core, Ms now) {
                        use(core, now);
                        done->set_value();
                      },
                      nullptr});
  }
  came_.notify_one();
  future.wait();
}

std::optional<Claim> Controller::Find(const std::string& id, Host* host) {
  std::optional<Claim> found;
  Read([&](const Core& core, Ms) {
    const Claim* claim = core.Find(id);
    if (claim == nullptr) return;
    found = *claim;
    auto at = core.hosts().find(claim->host);
    if (host != nullptr && at != core.hosts().end()) *host = at->second;
  });
  return found;
}

std::optional<Claim> Controller::WaitBound(const std::string& id, Ms longest) {
  return WaitUntil(id, longest,
                   [](const Claim& claim) { return IsUsable(claim.state) || IsOver(claim.state); });
}

std::optional<Claim> Controller::WaitUntil(const std::string& id, Ms longest,
                                           const std::function<bool(const Claim&)>& is_so) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(longest);
  while (true) {
    uint64_t seen;
    {
      std::lock_guard lock(mutex_);
      seen = changes_;
    }
    std::optional<Claim> claim = Find(id);
    if (!claim || is_so(*claim)) return claim;
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [&] { return changes_ != seen || stopping_; }) || stopping_)
      return claim;
  }
}

std::vector<v1::Event> Controller::EventsAfter(uint64_t* number, Ms longest,
                                               const std::optional<std::string>& by) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(longest),
                    [&] { return last_event_ > *number || stopping_; });
  std::vector<v1::Event> events;
  for (const Noted& noted : events_)
    if (noted.event.number() > *number && (!by || (noted.tenant == *by && !by->empty())))
      events.push_back(noted.event);
  *number = std::max(*number, last_event_);
  return events;
}

}  // namespace farcall::pool
