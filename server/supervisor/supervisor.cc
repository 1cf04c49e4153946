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

#include "proto/log_line.h"
#include "proto/printable.h"
#include "server/state/objects/image_store.h"
#include "server/worker/sandbox/worker_files.h"
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

// A line of ours, the device's among them, keeps its level; what else a worker writes is a warning.
void LogOfWorker(spdlog::logger& log, const std::string& who, const std::string& line) {
  const LogLineParts parts = ParseLogLine(line);
  if (parts.severity == LogSeverity::kOff) return log.warn("{}: {}", who, line);
  log.log(spdlog::level::from_str(LogSeverityName(parts.severity)), "{}: {}: {}", who,
          parts.component, parts.text);
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
      readable_(ReadableFiles(devices_.choice.path)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      output_(
          [log = spdlog::default_logger()->clone("farcall-worker")](
              const std::string& who, const std::string& line) { LogOfWorker(*log, who, line); }),
      shared_folders_(SharedFolderParent()),
      cgroups_(options.worker_memory_bytes),
      images_(image_base_),
      charges_(HooksOfCharges(), options.tenant_memory_bytes),
      time_(static_cast<int>(devices_.report.devices.size()), SettledPolicy(options), HooksOfTime(),
            ClockFor(devices_.choice.kind)),
      net_(options.max_net_bytes_per_s,
           [this](int control, const NetMessage& message) { (void)Tell(control, message); }),
      changes_(charges_, net_, !options.pool.url.empty(), HooksOfChanges()),
      swap_(SwapOptionsOf(options, devices_), LedgerOfSwapping(), HooksOfSwapping()),
      process_memory_(closer_, epoll_, nullptr,
                      HelperProcess::Answer<control::FromProcessMemory>(
                          [this](const control::FromProcessMemory& message,
                                 const std::vector<int>&) { OnProcessMemory(message); })),
      users_(options.worker_users),
      shared_([this](int fd) { closer_.Close(fd); }, &SharedObjects::MaxPerVgpu),
      control_service_(closer_, epoll_,
                       [this](const control::FromControlPlane& question) {
                         std::visit([this](const auto& each) { OnMessage(each); }, question);
                       }),
      pool_(closer_, epoll_, options.pool, devices_.report, options.max_net_bytes_per_s,
            options.parks_claims ? swap_.host_bytes() : 0,
            {[this](const std::string& claim, const std::string& why) { EndClaim(claim, why); },
             [this](const quota::ClaimGrant& from, const quota::ClaimGrant& to) {
               ChangeClaim(from, to);
             },
             [this](const quota::ClaimLedger::Parking& parking) { ParkClaim(parking); },
             [this] { return StatusJson(); }}),
      warm_caches_(MakeAllCaches(image_base_, KernelVariable(devices_.choice.kind))),
      warm_(WantedWarm(), epoll_, HooksOfWarm()) {
  sigset_t signals = HandledSignals();
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  WatchDescriptor(epoll_, signals_);
  overhead_ = MakeOverheadMeter();
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
        while (read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
          OnSignal(static_cast<int>(info.ssi_signo));
        }
      } else if (auto worker = workers_.find(fd); worker != workers_.end()) {
        ReadWorker(*worker->second);
      } else if (auto ended = processes_.find(fd); ended != processes_.end()) {
        OnProcessEnd(fd, ended->second);
      } else if (warm_.OnReadable(fd, Clock::now())) {
        // it was
      } else if (std::any_of(tls_.begin(), tls_.end(),
                             [fd](const auto& port) { return port->OnReadable(fd); })) {
        // it was
      } else if (!pool_.OnReadable(fd) &&
                 process_memory_.OnReadable(fd) == HelperProcess::Read::kNotOurs) {
        control_service_.OnReadable(fd);
      }
    }
    charges_.Tick(SteadyNow());
    changes_.Tick(SteadyNow());
    pool_.Tick();
    for (const std::unique_ptr<TlsPort>& port : tls_) {
      port->Tick();
    }
    if (overhead_ != nullptr) {
      overhead_->Tick(SteadyNow());
    }
    bool waits = charges_.has_waiting() || changes_.has_waiting();
    waits = KillLate() || waits;
    waits = Unmute() || waits;
    wait_ms = TickShares(waits || stopping_ ? kRetryMilliseconds : kTickMilliseconds);
    wait_ms = warm_.Tick(Clock::now(), wait_ms);
    if (draining_ && !stopping_ && Clock::now() >= drain_until_) {
      StopSessions("the server is stopping; its time to drain is over");
    }
    if (stopping_ && kill_at == Clock::time_point::max()) {
      kill_at = Clock::now() + kStopPatience;
    }
    if (Clock::now() > kill_at) {
      for (auto& [control, worker] : workers_) {
        KillProcess(worker->process);
      }
    }
    if (draining_ && workers_.empty()) {
      break;
    }
  }
  listener.Stop();
  return kExitOk;
}

void Supervisor::OnSignal(int signal) {
  if (!draining_) {
    draining_ = true;
    warm_.Stop();
    pool_.Drain();
    const uint32_t seconds = options_.drain_seconds;
    if (seconds != 0) {
      drain_until_ = Clock::now() + std::chrono::seconds(seconds);
    }
    spdlog::info("{}: no new sessions; {} still run, {} (once more ends them)", strsignal(signal),
                 workers_.size(),
                 seconds == 0 ? "as long as they want" : fmt::format("for {} s at most", seconds));
  } else if (!stopping_) {
    StopSessions("the server is stopping");
  }
}

void Supervisor::StopSessions(const char* why) {
  stopping_ = true;
  for (auto& [control, worker] : workers_) {
    (void)control::Send(control, control::Stop{.why = why});
  }
}

int Supervisor::HostDevice(const Worker& worker, int device) const {
  if (device == quota::kHostMemory) {
    return device;
  }
  bool known = device >= 0 && static_cast<size_t>(device) < worker.devices.size();
  return known ? worker.devices[static_cast<size_t>(device)] : kNoDevice;
}

int Supervisor::SessionDevice(int control, int device) const {
  auto worker = workers_.find(control);
  if (worker == workers_.end() || device == quota::kHostMemory) {
    return device;
  }
  const std::vector<int>& devices = worker->second->devices;
  auto own = std::find(devices.begin(), devices.end(), device);
  return own != devices.end() ? static_cast<int>(own - devices.begin()) : kNoDevice;
}

void Supervisor::KillOnFailedSend(int control, const Status& sent) {
  auto worker = workers_.find(control);
  if (!sent.ok() && worker != workers_.end()) {
    KillProcess(worker->second->process);
  }
}

void Supervisor::EndClaim(const std::string& claim, const std::string& why) {
  for (auto& [control, worker] : workers_) {
    if (worker->claim == claim) {
      EndSession(*worker, why);
    }
  }
}

void Supervisor::EndSession(Worker& worker, const std::string& why) {
  constexpr std::chrono::seconds kPatience(1);
  if (worker.kill_at != Clock::time_point::max()) {
    return;
  }
  worker.kill_at = Clock::now() + kPatience;
  (void)Tell(worker.process.control, control::Stop{.why = why});
}

bool Supervisor::KillLate() {
  bool some = false;
  for (auto& [control, worker] : workers_) {
    some = some || worker->kill_at != Clock::time_point::max();
    if (Clock::now() >= worker->kill_at) {
      Kill(*worker);
    }
  }
  return some;
}

// The worker's end of the socket is closed: its process is ending, or has shut us out. Its memory
// is back once the process is gone, which the driver may take seconds for: nobody waits.
void Supervisor::ShutOut(Worker& worker, const std::string& why) {
  ForgetDescriptor(epoll_, worker.process.control);
  worker.is_shut_out = true;
  if (!why.empty() && worker.ended.empty()) {
    worker.ended = "its worker broke the rules of the control socket: " + why;
  }
  KillProcess(worker.process);
}

void Supervisor::OnProcessEnd(int process, int control) {
  if (workers_.at(control)->process.pid_fd == process) {
    return EndWorker(control);
  }
  ForgetClient(*workers_.at(control));
  (void)Tell(control, control::ClientGone{});
}

void Supervisor::ForgetClient(Worker& worker) {
  if (worker.client_fd >= 0) {
    ForgetDescriptor(epoll_, worker.client_fd);
    processes_.erase(worker.client_fd);
    closer_.Close(std::exchange(worker.client_fd, -1));
  }
}

// Its process is gone, whoever may still hold an end of the socket; what it said last is read.
void Supervisor::EndWorker(int control) {
  Worker& worker = *workers_.find(control)->second;
  for (int i = 0; i < kLastMessages && !worker.is_shut_out && TakeMessage(worker).ok(); ++i) {
  }
  Reap(control);
}

void Supervisor::Reap(int control) {
  auto found = workers_.find(control);
  Worker& worker = *found->second;
  ForgetDescriptor(epoll_, control);
  ForgetClient(worker);
  ForgetDescriptor(epoll_, worker.process.pid_fd);
  processes_.erase(worker.process.pid_fd);
  int status = 0;
  waitpid(worker.process.pid, &status, 0);  // at once: it has ended
  std::string cause = worker.ended;
  if (cause.empty()) {
    cause = "the worker ended without a word";
  }
  if (WIFSIGNALED(status) && worker.ended.empty()) {
    cause = std::string("the worker crashed: ") + strsignal(WTERMSIG(status));
  }
  auto seconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - worker.since).count() /
      1000.0;
  spdlog::info("{}: ended after {:.1f} s: {}", worker.who, seconds, cause);
  nlohmann::json fields = AuditFields(worker);
  fields["seconds"] = seconds;
  fields["cause"] = cause;
  audit_.Note("session_ended", std::move(fields));
  ended_.Note(worker.session, worker.key, std::move(cause), Clock::now());
  time_.Leave(control, SteadyNow());
  net_.Leave(control);
  swap_.Leave(control);
  if (worker.user) {
    users_.GiveBack(worker.vgpu);
  }
  closer_.EndGroup(cgroups_.Drop(worker.vgpu));
  closer_.Remove(shared_folders_.Drop(worker.vgpu));
  charges_.Leave(control);
  if (overhead_ != nullptr) {
    overhead_->Leave(control);
  }
  if (!worker.claim.empty()) {
    pool_.Leave(worker.claim);
  }
  const std::string group = worker.claim.empty() ? "" : worker.mps_group;
  shared_.Leave(control);
  ++totals_.sessions;
  CloseLedger(worker);
  images_.Forget(worker.number);
  closer_.Close(control);
  closer_.Close(worker.process.pid_fd);
  output_.End(worker.output);
  workers_.erase(found);
  if (workers_.empty()) {
    process_memory_.End();  // nobody's to be asked about
  }
  bool is_last = !group.empty() && std::none_of(workers_.begin(), workers_.end(), [&](auto& other) {
    return other.second->mps_group == group;
  });
  if (is_last) {
    mps_->Release(group);
  }
}

}  // namespace farcall::server
