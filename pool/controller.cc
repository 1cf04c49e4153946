// SPDX-License-Identifier: Apache-2.0
#include "pool/controller.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>

#include "pool/convert.h"

namespace farcall::pool {

namespace {

constexpr size_t kMostAtOnce = 64;
constexpr std::chrono::milliseconds kTick(200);
constexpr size_t kMostEvents = 10'000;
constexpr int kExitFenced = 3;

Ms SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Core LoadCore(const Loaded& loaded, const Timing& timing) {
  std::vector<Claim> claims;
  std::vector<Host> hosts;
  for (const std::string& value : loaded.claims) {
    pb::Claim claim;
    if (claim.ParseFromString(value)) claims.push_back(FromProto(claim));
  }
  for (const std::string& value : loaded.hosts) {
    pb::Host host;
    if (host.ParseFromString(value)) hosts.push_back(FromProto(host));
  }
  Core core(timing);
  core.Load(std::move(claims), std::move(hosts), SteadyMs());
  return core;
}

}  // namespace

Controller::Controller(std::unique_ptr<Store> store, const Loaded& loaded, const Timing& timing)
    : store_(std::move(store)), term_(loaded.term), core_(LoadCore(loaded, timing)) {}

Controller::~Controller() {
  Stop();
}

void Controller::Start() {
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
    std::vector<Item> items;
    {
      std::unique_lock lock(mutex_);
      came_.wait_until(lock, next_tick, [this] { return !queue_.empty() || stopping_; });
      if (stopping_ && queue_.empty()) return;
      while (!queue_.empty() && items.size() < kMostAtOnce) {
        items.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      next_tick = std::chrono::steady_clock::now() + kTick;
      items.push_back({Tick{}, nullptr, nullptr});
    }
    Handle(std::move(items));
  }
}

void Controller::Handle(std::vector<Item> items) {
  Ms now = SteadyMs();
  std::vector<Effects> all(items.size());
  std::set<std::string> claims, hosts, erased, beats;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].event) continue;
    all[i] = core_.Apply(*items[i].event, now);
    claims.insert(all[i].claims.begin(), all[i].claims.end());
    hosts.insert(all[i].hosts.begin(), all[i].hosts.end());
    erased.insert(all[i].erased_claims.begin(), all[i].erased_claims.end());
    beats.insert(all[i].beats.begin(), all[i].beats.end());
  }
  Batch batch;
  for (const std::string& id : claims)
    if (const Claim* claim = core_.Find(id))
      batch.writes.push_back({"claim", id, ToProto(*claim, nullptr).SerializeAsString()});
  for (const std::string& id : erased)
    if (core_.Find(id) == nullptr) batch.writes.push_back({"claim", id, ""});
  for (const std::string& name : hosts)
    batch.writes.push_back(
        {"host", name, ToProto(core_.hosts().at(name), now).SerializeAsString()});
  Status stored = store_->Commit(batch);
  if (!stored.ok()) {
    // What was decided cannot be undone here and was told to nobody: the next start has the truth.
    std::fprintf(stderr, "farcall pool: %s; ending (sessions go on)\n", stored.message().c_str());
    std::fflush(nullptr);
    _exit(kExitFenced);
  }
  for (const Effects& effects : all) Note(effects);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].read) items[i].read(core_, now);
    if (items[i].done) items[i].done(all[i]);
  }
  if (nudge_)
    for (const std::string& host : beats) nudge_(host);
  std::lock_guard lock(mutex_);
  if (!batch.writes.empty()) ++changes_;
  changed_.notify_all();
}

void Controller::Note(const Effects& effects) {
  if (effects.happenings.empty()) return;
  std::lock_guard lock(mutex_);
  for (const Happening& happening : effects.happenings) {
    v1::Event& event = events_.emplace_back();
    event.set_number(++last_event_);
    event.set_time_ms(UnixMs());
    event.set_kind(happening.kind);
    event.set_claim(happening.claim);
    event.set_host(happening.host);
    event.set_text(happening.text);
    if (events_.size() > kMostEvents) events_.pop_front();
  }
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
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(longest);
  while (true) {
    uint64_t seen;
    {
      std::lock_guard lock(mutex_);
      seen = changes_;
    }
    std::optional<Claim> claim = Find(id);
    if (!claim || IsUsable(claim->state) || IsOver(claim->state)) return claim;
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [&] { return changes_ != seen || stopping_; }) || stopping_)
      return claim;
  }
}

std::vector<v1::Event> Controller::EventsAfter(uint64_t number, Ms longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(longest),
                    [&] { return last_event_ > number || stopping_; });
  std::vector<v1::Event> events;
  for (const v1::Event& event : events_)
    if (event.number() > number) events.push_back(event);
  return events;
}

}  // namespace farcall::pool
