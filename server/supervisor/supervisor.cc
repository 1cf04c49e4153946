// SPDX-License-Identifier: Apache-2.0
// The supervisor's loop: workers' questions, their ends, signals.
#include "server/supervisor/supervisor.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/printable.h"
#include "server/state/objects/image_store.h"
#include "settings/exit_code.h"

namespace farcall::server {

namespace {

constexpr std::chrono::seconds kStopPatience(3);
constexpr int kTickMilliseconds = 1000;
constexpr int kRetryMilliseconds = 10;
constexpr int kLastMessages = 1024;  // more than a socket's queue has

// A driver counts a GPU's time, a software device the processors'.
quota::SchedulerOptions ClockFor(const std::string& kind) {
  quota::SchedulerOptions options;
  options.clock_parts = kind == "cuda" ? 2 : 4;
  return options;
}

}  // namespace

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

Supervisor::Supervisor(const ServeOptions& options, ProbedDevices devices)
    : options_(options),
      devices_(std::move(devices)),
      image_base_(ImageBaseDirectory()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      charges_(HooksOfCharges(), options.tenant_memory_bytes),
      images_(image_base_),
      time_(static_cast<int>(devices_.report.devices.size()), SettledPolicy(options), HooksOfTime(),
            ClockFor(devices_.choice.kind)),
      net_(options.max_net_bytes_per_s,
           [this](int control, const NetMessage& message) { (void)Tell(control, message); }),
      changes_(charges_, net_, !options.pool.url.empty(), HooksOfChanges()),
      swap_(SwapOptionsOf(options, devices_), LedgerOfSwapping(), HooksOfSwapping()),
      driver_memory_(devices_, options.charges_overhead, sessions_, closer_, epoll_,
                     HooksOfDriverMemory()),
      shared_([this](int fd) { closer_.Close(fd); }, &SharedObjects::MaxPerVgpu),
      control_service_(closer_, epoll_,
                       [this](const control::FromControlPlane& question) {
                         std::visit([this](const auto& each) { OnMessage(each); }, question);
                       }),
      pool_(closer_, epoll_, options.pool, devices_.report,
            {options.max_net_bytes_per_s, options.parks_claims ? swap_.host_bytes() : 0,
             options.oversubscribe_milli},
            {[this](const std::string& claim, const std::string& why) { EndClaim(claim, why); },
             [this](const quota::ClaimGrant& from, const quota::ClaimGrant& to) {
               ChangeClaim(from, to);
             },
             [this](const quota::ClaimLedger::Parking& parking) { ParkClaim(parking); },
             [this] { return StatusJson(); }}),
      report_({options_, devices_, sessions_, placement_, charges_, time_, net_, swap_,
               driver_memory_}),
      starter_(options_, devices_, sessions_, placement_, places_, closer_, epoll_),
      mps_(options_, devices_, policy_, placement_) {
  sigset_t signals = HandledSignals();
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  WatchDescriptor(epoll_, signals_);
}

Supervisor::~Supervisor() {
  close(signals_);
  close(epoll_);
}

Result<std::unique_ptr<Listener>> Supervisor::OpenTls(std::unique_ptr<Listener> tcp) {
  auto port = std::make_unique<TlsPort>(closer_, epoll_, options_.tls, std::move(tcp));
  FARCALL_TRY(port->Open());
  tls_.push_back(std::move(port));
  return tls_.back()->TakeListener();
}

int Supervisor::Run(HandshakeServer& listener) {
  Clock::time_point kill_at = Clock::time_point::max();
  int wait_ms = kTickMilliseconds;
  while (true) {
    std::array<epoll_event, 32> events;
    int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
    std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == signals_) {
        signalfd_siginfo info;
        while (read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info)))
          OnSignal(static_cast<int>(info.ssi_signo));
      } else if (WorkerSession* session = sessions_.Find(fd); session != nullptr) {
        ReadWorker(*session);
      } else if (std::optional<int> control = sessions_.FindByProcess(fd); control) {
        OnProcessEnd(fd, *control);
      } else if (!starter_.OnReadable(fd, Clock::now()) &&
                 std::none_of(tls_.begin(), tls_.end(),
                              [fd](const auto& port) { return port->OnReadable(fd); }) &&
                 !pool_.OnReadable(fd) &&
                 driver_memory_.OnReadable(fd) == HelperProcess::Read::kNotOurs) {
        control_service_.OnReadable(fd);
      }
    }
    charges_.Tick(SteadyNow());
    changes_.Tick(SteadyNow());
    pool_.Tick();
    for (const std::unique_ptr<TlsPort>& port : tls_) port->Tick();
    driver_memory_.Tick(SteadyNow());
    bool waits = charges_.has_waiting() || changes_.has_waiting();
    waits = KillLate() || waits;
    waits = Unmute() || waits;
    wait_ms = TickShares(waits || stopping_ ? kRetryMilliseconds : kTickMilliseconds);
    wait_ms = starter_.Tick(Clock::now(), wait_ms);
    if (draining_ && !stopping_ && Clock::now() >= drain_until_)
      StopSessions("the server is stopping; its time to drain is over");
    if (stopping_ && kill_at == Clock::time_point::max()) kill_at = Clock::now() + kStopPatience;
    if (Clock::now() > kill_at)
      for (auto& [control, worker] : sessions_) KillProcess(worker->process);
    if (draining_ && sessions_.empty()) break;
  }
  listener.Stop();
  return kExitOk;
}

void Supervisor::OnSignal(int signal) {
  if (!draining_) {
    draining_ = true;
    starter_.Stop();
    pool_.Drain();
    const uint32_t seconds = options_.drain_seconds;
    if (seconds != 0) drain_until_ = Clock::now() + std::chrono::seconds(seconds);
    spdlog::info("{}: no new sessions; {} still run, {} (once more ends them)", strsignal(signal),
                 sessions_.size(),
                 seconds == 0 ? "as long as they want" : fmt::format("for {} s at most", seconds));
  } else if (!stopping_) {
    StopSessions("the server is stopping");
  }
}

void Supervisor::StopSessions(const char* why) {
  stopping_ = true;
  for (auto& [control, worker] : sessions_) (void)control::Send(control, control::Stop{.why = why});
}

Status Supervisor::OpenMps() {
  FARCALL_TRY(mps_.Open(
      [this](const std::string& group, const std::string& why) { EndMpsGroup(group, why); },
      [this](const std::string& group) {
        std::lock_guard lock(mutex_);
        return sessions_.CountInGroup(group);
      }));
  return !mps_.is_open() || pool_.is_in_pool() ? Status() : mps_.Ensure(kAllSessions, nullptr);
}

// A thread of the MPS service's.
void Supervisor::EndMpsGroup(const std::string& group, const std::string& why) {
  std::lock_guard lock(mutex_);
  size_t ended = 0;
  for (auto& [control, worker] : sessions_) {
    if (worker->mps_group != group || worker->kill_at != Clock::time_point::max()) continue;
    worker->is_terminated = true;  // there is no server to do it
    EndSession(*worker, why);
    ++ended;
  }
  spdlog::error("{}: {}; its {} sessions end, its server is started anew", group, why, ended);
  audit_.Note("mps_group_ended", {{"group", group}, {"why", why}, {"sessions", ended}});
}

void Supervisor::Kill(WorkerSession& worker) {
  constexpr std::chrono::seconds kPatience(2);
  if (!worker.mps_group.empty() && !worker.is_terminated) {
    worker.is_terminated = true;
    worker.kill_at = Clock::now() + kPatience;
    return mps_.Terminate(worker);
  }
  KillProcess(worker.process);
}

void Supervisor::KillOnFailedSend(int control, const Status& sent) {
  const WorkerSession* session = sessions_.Find(control);
  if (!sent.ok() && session != nullptr) KillProcess(session->process);
}

void Supervisor::EndClaim(const std::string& claim, const std::string& why) {
  for (auto& [control, worker] : sessions_)
    if (worker->claim == claim) EndSession(*worker, why);
}

void Supervisor::EndSession(WorkerSession& worker, const std::string& why) {
  constexpr std::chrono::seconds kPatience(1);
  if (worker.kill_at != Clock::time_point::max()) return;
  worker.kill_at = Clock::now() + kPatience;
  (void)Tell(worker.process.control, control::Stop{.why = why});
}

bool Supervisor::KillLate() {
  bool some = false;
  for (auto& [control, worker] : sessions_) {
    some = some || worker->kill_at != Clock::time_point::max();
    if (Clock::now() >= worker->kill_at) Kill(*worker);
  }
  return some;
}

// The worker's end of the socket is closed: its process is ending, or has shut us out. Its memory
// is back once the process is gone, which the driver may take seconds for: nobody waits.
void Supervisor::ShutOut(WorkerSession& worker, const std::string& why) {
  ForgetDescriptor(epoll_, worker.process.control);
  worker.is_shut_out = true;
  if (!why.empty() && worker.ended.empty())
    worker.ended = "its worker broke the rules of the control socket: " + why;
  KillProcess(worker.process);
}

void Supervisor::OnProcessEnd(int process, int control) {
  if (sessions_.At(control).process.pid_fd == process) return EndWorker(control);
  ForgetClient(sessions_.At(control));
  (void)Tell(control, control::ClientGone{});
}

void Supervisor::ForgetClient(WorkerSession& worker) {
  if (worker.client_fd >= 0) {
    ForgetDescriptor(epoll_, worker.client_fd);
    sessions_.RemoveProcess(worker.client_fd);
    closer_.Close(std::exchange(worker.client_fd, -1));
  }
}

// Its process is gone, whoever may still hold an end of the socket; what it said last is read.
void Supervisor::EndWorker(int control) {
  WorkerSession& worker = sessions_.At(control);
  for (int i = 0; i < kLastMessages && !worker.is_shut_out && TakeMessage(worker).ok(); ++i) {
  }
  Reap(control);
}

void Supervisor::Reap(int control) {
  WorkerSession& worker = sessions_.At(control);
  ForgetDescriptor(epoll_, control);
  ForgetClient(worker);
  ForgetDescriptor(epoll_, worker.process.pid_fd);
  sessions_.RemoveProcess(worker.process.pid_fd);
  int status = 0;
  waitpid(worker.process.pid, &status, 0);  // at once: it has ended
  std::string cause = worker.ended;
  if (cause.empty()) cause = "the worker ended without a word";
  if (WIFSIGNALED(status) && worker.ended.empty())
    cause = std::string("the worker crashed: ") + strsignal(WTERMSIG(status));
  const auto ran =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - worker.since);
  const double seconds = static_cast<double>(ran.count()) / 1000;
  spdlog::info("{}: ended after {:.1f} s: {}", worker.who, seconds, cause);
  nlohmann::json fields = report_.AuditFields(worker);
  fields["seconds"] = seconds;
  fields["cause"] = cause;
  audit_.Note("session_ended", std::move(fields));
  ended_.Note(worker.session, worker.key, std::move(cause), Clock::now());
  time_.Leave(control, SteadyNow());
  net_.Leave(control);
  swap_.Leave(control);
  charges_.Leave(control);
  driver_memory_.Leave(control);
  if (!worker.claim.empty()) pool_.Leave(worker.claim);
  const std::string group = worker.claim.empty() ? "" : worker.mps_group;
  shared_.Leave(control);
  ++totals_.sessions;
  CloseLedger(worker);
  images_.Forget(worker.number);
  closer_.Close(control);
  closer_.Close(worker.process.pid_fd);
  starter_.Release(worker);
  sessions_.Remove(control);
  if (sessions_.empty()) driver_memory_.EndHelper();
  if (!group.empty() && sessions_.CountInGroup(group) == 0) mps_.Release(group);
}

}  // namespace farcall::server
