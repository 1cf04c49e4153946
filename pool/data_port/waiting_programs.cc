// SPDX-License-Identifier: Apache-2.0
#include "pool/data_port/waiting_programs.h"

#include <array>
#include <exception>

#include "proto/log_line.h"
#include "proto/printable.h"
#include "transport/handshake.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxWaiting = 1024;
constexpr std::chrono::milliseconds kLook(250);  // how often a waiting client is looked after
constexpr size_t kLooksAtOnce = 16;              // each asks the controller twice

void RefuseTo(Channel& channel, const Status& why) {
  (void)SendRefuse(channel, {why.code(), why.message()}, Clock::now());
}

bool HasGone(Channel& channel) {
  std::array<std::byte, 64> rest;
  Result<size_t> got = channel.TryReceive(rest);
  return !got.ok() || *got != 0;  // nothing may come before the answer
}

}  // namespace

Status WaitingPrograms::Start() {
  return thread_.Start("fc-waiting", &WaitingPrograms::Loop, this)
             ? Status()
             : Status(Code::kUnavailable, "no thread for waiting programs");
}

void WaitingPrograms::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  came_.notify_all();
  thread_.Join();
  for (Program& program : programs_)
    RefuseTo(*program.channel, {Code::kUnavailable, "the pool's controller is ending: try again"});
  programs_.clear();
}

void WaitingPrograms::Add(Program program) {
  program.look_at = Clock::now() + kLook;
  {
    std::unique_lock lock(mutex_);
    // Under the lock: a place that comes after this is seen by the next sweep.
    if (Answer(program)) return;
    if (programs_.size() + looked_at_ < kMaxWaiting && !stopping_) {
      programs_.push_back(std::move(program));
      lock.unlock();
      came_.notify_all();
      return;
    }
  }
  GiveUp(program, "too many programs wait");
  RefuseTo(*program.channel,
           {Code::kUnavailable, std::to_string(kMaxWaiting) + " programs wait already"});
}

std::optional<Redirect> WaitingPrograms::Lead(const std::string& claim) {
  std::optional<Controller::Seat> seat = service_->controller().FindSeat(claim);
  if (!seat) return std::nullopt;
  pb::Connection connection;
  service_->Lead(*seat, &connection);
  return Redirect{std::move(seat->endpoints), connection.token(), claim};
}

bool WaitingPrograms::Answer(Program& program) {
  std::optional<Redirect> led = Lead(program.claim);
  if (!led) return false;
  (void)SendRedirect(*program.channel, program.key, *led, Clock::now());
  return true;
}

void WaitingPrograms::Loop() {
  Controller& controller = service_->controller();
  while (true) {
    const uint64_t seen = controller.LastChange();
    {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return stopping_ || !programs_.empty(); });
      if (stopping_) return;
      Sweep();
      if (controller.is_stopping()) {  // which answers nothing any more
        came_.wait(lock, [this] { return stopping_; });
        return;
      }
    }
    bool more = false;
    try {
      more = LookAfterSome();
    } catch (const std::exception& error) {
      LogLine(LogSeverity::kError, "pool", std::string("waiting programs: ") + error.what());
      std::lock_guard lock(mutex_);
      looked_at_ = 0;
    }
    (void)controller.ChangesAfter(seen, more ? 0 : kLook.count());
  }
}

void WaitingPrograms::Sweep() {
  for (auto program = programs_.begin(); program != programs_.end();) {
    auto at = program++;
    if (Answer(*at)) programs_.erase(at);
  }
}

// Without the lock, because the controller is asked: handshakes go on meanwhile.
bool WaitingPrograms::LookAfterSome() {
  Programs due, stay;
  {
    std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    for (auto program = programs_.begin(); program != programs_.end() && due.size() < kLooksAtOnce;)
      if (auto at = program++; at->look_at <= now) due.splice(due.end(), programs_, at);
    looked_at_ = due.size();
  }
  const bool more = due.size() == kLooksAtOnce;
  while (!due.empty()) {
    Program& program = due.front();
    if (std::optional<Status> end = Look(program)) {
      RefuseTo(*program.channel, *end);
      due.pop_front();
    } else {
      program.look_at = Clock::now() + kLook;
      stay.splice(stay.end(), due, due.begin());
    }
  }
  std::lock_guard lock(mutex_);
  looked_at_ = 0;
  programs_.splice(programs_.end(), stay);
  return more;
}

std::optional<Status> WaitingPrograms::Look(Program& program) {
  const std::string& id = program.claim;
  std::optional<Claim> claim = service_->controller().Find(id);
  if (service_->controller().is_stopping()) return std::nullopt;
  if (!claim) return Status(Code::kRefused, "there is no claim '" + Printable(id) + "'");
  if (IsUsable(claim->state)) return std::nullopt;
  if (IsOver(claim->state))
    return Status(Code::kRefused, "claim " + id + " is " + std::string(ToText(claim->state)) +
                                      ": " + claim->reason);
  if (HasGone(*program.channel)) {
    GiveUp(program, "its client has gone");
    return Status(Code::kDisconnected, "the client has gone");
  }
  if (!service_->CouldNeverFit(id) && Clock::now() < program.until) return std::nullopt;
  pb::ClaimName name;
  name.set_id(id);
  pb::Explanation told;
  service_->Explain(name, &told);
  GiveUp(program, "its client has waited long enough");
  return Status(Code::kQuotaExceeded, "no place in the pool: " + told.why());
}

void WaitingPrograms::GiveUp(const Program& program, const std::string& why) {
  if (program.is_own) service_->controller().Apply(ReleaseClaim{program.claim, why, {}});
}

}  // namespace farcall::pool
