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
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/printable.h"
#include "server/supervisor/exit_code.h"

namespace farcall::server {

namespace {

constexpr std::chrono::seconds kStopPatience(3);
constexpr int kTickMilliseconds = 1000;
constexpr int kRetryMilliseconds = 10;
constexpr int kNoDevice = -2;  // neither a device nor quota::kHostMemory

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
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      leases_(static_cast<int>(devices_.report.devices.size()), SettledPolicy(options),
              [this](int control, const ControlMessage& message) {
                (void)Tell(control, message);  // one that does not read is buried
              }),
      net_(options.max_net_bytes_per_s,
           [this](int control, const ControlMessage& message) {
             (void)Tell(control, message);  // one that does not read is buried
           }),
      process_memory_(epoll_, nullptr,
                      [this](const ControlMessage& message, const std::vector<int>&) {
                        HearProcessMemory(message);
                      }),
      users_(options.worker_users),
      cgroups_(options.worker_memory_bytes),
      desk_(epoll_, [this](const ControlMessage& question) { AnswerControl(question); }),
      pool_(epoll_, options.pool, devices_.report, options.max_net_bytes_per_s,
            {[this](const std::string& claim, const std::string& why) { EndClaim(claim, why); },
             [this](const quota::ClaimGrant& from, const quota::ClaimGrant& to) {
               ChangeClaim(from, to);
             },
             [this] { return StatusJson(); }}) {
  sigset_t signals = HandledSignals();
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  WatchDescriptor(epoll_, signals_);
  swap_ = MakeSwapDesk();
  overhead_ = MakeOverheadDesk();
}

Supervisor::~Supervisor() {
  close(signals_);
  close(epoll_);
}

int Supervisor::Run(HandshakeServer& door) {
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
          HearSignal(static_cast<int>(info.ssi_signo));
        }
      } else if (auto worker = workers_.find(fd); worker != workers_.end()) {
        HearWorker(*worker->second);
      } else if (auto ended = processes_.find(fd); ended != processes_.end()) {
        EndWorker(ended->second);
      } else if (!pool_.Hear(fd) && process_memory_.Hear(fd) == HelperProcess::Heard::kNotOurs) {
        desk_.Hear(fd);
      }
    }
    RetryCharges();
    RetryChanges();
    pool_.Tick();
    if (overhead_ != nullptr) {
      overhead_->Tick(SteadyNow());
    }
    bool waits = !waiting_charges_.empty() || !waiting_changes_.empty() || KillLate();
    wait_ms = WaitForLeases(waits || stopping_ ? kRetryMilliseconds : kTickMilliseconds);
    wait_ms = WaitForSwaps(wait_ms);
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
  door.Stop();
  return kExitOk;
}

void Supervisor::HearSignal(int signal) {
  if (!draining_) {
    draining_ = true;
    pool_.Drain();
    spdlog::info("{}: no new sessions; {} still run (once more ends them)", strsignal(signal),
                 workers_.size());
    return;
  }
  if (stopping_) {
    return;
  }
  stopping_ = true;
  ControlMessage stop;
  stop.type = ControlType::kStop;
  stop.SetText("the server is stopping");
  for (auto& [control, worker] : workers_) {
    (void)SendControl(control, stop);
  }
}

Status Supervisor::TakeMessage(Worker& worker) {
  ControlMessage message;
  std::vector<int> descriptors;
  Status received = ReceiveControl(worker.process.control, &message, &descriptors);
  if (received.ok()) {
    message.device = HostDevice(worker, message.device);
    AnswerWorker(worker, message, &descriptors);
  }
  for (int fd : descriptors) {
    close(fd);
  }
  return received;
}

void Supervisor::HearWorker(Worker& worker) {
  Status received;
  while (received.ok()) {
    received = TakeMessage(worker);
  }
  if (received.code() != Code::kTimeout) {
    ShutOut(worker);
  }
}

void Supervisor::AnswerWorker(Worker& worker, const ControlMessage& message,
                              std::vector<int>* descriptors) {
  bool known_device =
      message.device >= 0 && static_cast<size_t>(message.device) < devices_.report.devices.size();
  ControlMessage answer;
  answer.id = message.id;
  if (message.type == ControlType::kEnded) {
    worker.ended = Printable(message.Text(), kMaxMessageBytes);
    totals_.bytes_up += message.a;
    totals_.bytes_down += message.b;
    return;
  }
  if (message.type == ControlType::kSkipped) {
    spdlog::warn("kernel {}: {} launches skipped, machine code alone", message.Text(), message.a);
    totals_.skipped[Printable(message.Text(), kMaxMessageBytes)] += message.a;
    return;
  }
  if (leases_.Hear(worker.process.control, message, SteadyNow()) ||
      net_.Hear(worker.process.control, message, SteadyNow())) {
    return;
  }
  if (HearSwap(worker, message)) {
    return;
  }
  if (message.type == ControlType::kRedeem) {
    return AnswerRedeem(worker, message);
  }
  if (message.type == ControlType::kDrop) {
    return DropHolder({message.b, message.c}, worker.process.control, false);
  }
  bool is_host = message.device == quota::kHostMemory &&
                 (message.type == ControlType::kCharge || message.type == ControlType::kRefund);
  if (!known_device && !is_host) {
    return;
  }
  if (message.type == ControlType::kPeak) {
    return totals_.AddPeak(message.device, message.a);
  }
  if (message.type == ControlType::kShare) {
    return AnswerShare(worker, message, descriptors);
  }
  if (message.type == ControlType::kRefund) {
    worker.charges[message.device].RefundSome(message.a);
    return;
  }
  if (message.type == ControlType::kCharge) {
    if (AnswerCharge(worker, message, is_host) || Recall(worker, message)) {
      return;
    }
    if (!AnswerCharge(worker, message, true)) {  // for room
      waiting_charges_.push_back({worker.process.control, message, Clock::now()});
    }
  } else if (message.type == ControlType::kAskUsage) {
    answer.type = ControlType::kUsage;
    if (overhead_ != nullptr) {
      overhead_->Expect(worker.process.control, message.device);
    }
    Reply(worker, answer, message.device);
  } else if (message.type == ControlType::kUnspent) {
    worker.unspent[message.device] = message.a;
  } else if (message.type == ControlType::kAskProcesses) {
    ListProcesses(worker, message);
  }
}

// A pid means something on its own host only.
void Supervisor::ListProcesses(Worker& worker, const ControlMessage& question) {
  ControlMessage answer;
  answer.type = ControlType::kProcesses;
  answer.id = question.id;
  for (auto& [control, other] : workers_) {
    auto charge = other->charges.find(question.device);
    uint64_t bytes = charge == other->charges.end() ? 0 : charge->second.bytes();
    bytes += overhead_ == nullptr ? 0 : overhead_->charged_bytes(control, question.device);
    if (other->vgpu != worker.vgpu || other->told_host != worker.told_host || bytes == 0) {
      continue;
    }
    if (answer.a++ >= question.a && answer.b < kProcessesPerMessage) {
      // Of its own unspent credit, the asker's client knows more.
      uint64_t unspent = other.get() == &worker ? 0 : UnspentOf(*other, question.device);
      ControlProcess entry{other->client_pid, bytes - unspent};
      std::memcpy(answer.text + answer.b++ * sizeof(entry), &entry, sizeof(entry));
    }
  }
  Send(worker, answer);
}

bool Supervisor::AnswerCharge(Worker& worker, const ControlMessage& charge, bool is_last_try) {
  ControlMessage answer;
  answer.type = ControlType::kChargeReply;
  answer.id = charge.id;
  std::string why;
  if (overhead_ != nullptr) {
    overhead_->Expect(worker.process.control, charge.device);
  }
  SwapDesk::Room room = RoomFor(worker, charge, &why);
  if (room == SwapDesk::Room::kComes) {
    return false;
  }
  Result<quota::Charge> reserved = room == SwapDesk::Room::kNever
                                       ? Result<quota::Charge>(Status(Code::kQuotaExceeded, why))
                                       : ledger_.Reserve(worker.vgpu, charge.device, charge.a);
  if (reserved.ok()) {
    worker.charges[charge.device].Merge(std::move(*reserved));
    if (charge.device != quota::kHostMemory) {
      totals_.NoteCharged(charge.device, ledger_.charged_on_device(charge.device));
    }
    answer.a = 1;
  } else {
    if (!is_last_try && room == SwapDesk::Room::kThere) {
      return false;
    }
    uint64_t overhead = OverheadOf(worker.vgpu, charge.device, true);
    why = reserved.status().message();
    why += overhead == 0 ? "" : "; " + std::to_string(overhead) + " are contexts and machine code";
    answer.SetText(why);
    spdlog::info("{}: {}", worker.who, why);
  }
  Reply(worker, answer, charge.device);
  return true;
}

void Supervisor::Reply(Worker& worker, ControlMessage answer, int device) {
  quota::Usage usage = ledger_.usage(worker.vgpu, device);
  answer.b = usage.charged_bytes;
  if (answer.type == ControlType::kUsage) {
    answer.a = UnspentByOthers(worker, device);
  }
  answer.c = usage.quota_bytes;
  Send(worker, answer);
}

uint64_t Supervisor::UnspentByOthers(const Worker& worker, int device) const {
  uint64_t total = 0;
  for (const auto& [control, other] : workers_) {
    if (other.get() != &worker && other->vgpu == worker.vgpu) {
      total += UnspentOf(*other, device);
    }
  }
  return total;
}

uint64_t Supervisor::UnspentOf(const Worker& worker, int device) {
  auto unspent = worker.unspent.find(device);
  auto charge = worker.charges.find(device);
  if (unspent == worker.unspent.end() || charge == worker.charges.end()) {
    return 0;
  }
  return std::min(unspent->second, charge->second.bytes());  // no more than it can give back
}

void Supervisor::Send(Worker& worker, const ControlMessage& answer) {
  // A worker that asks without reading the answers is not ours any more.
  if (!SendControl(worker.process.control, answer).ok()) {
    KillProcess(worker.process);
  }
}

int Supervisor::HostDevice(const Worker& worker, int device) const {
  if (device == quota::kHostMemory) {
    return device;
  }
  bool known = device >= 0 && static_cast<size_t>(device) < worker.devices.size();
  return known ? worker.devices[static_cast<size_t>(device)] : kNoDevice;
}

Status Supervisor::Tell(int control, ControlMessage message, int descriptor) {
  if (auto worker = workers_.find(control); worker != workers_.end()) {
    const std::vector<int>& devices = worker->second->devices;
    auto own = std::find(devices.begin(), devices.end(), message.device);
    if (own != devices.end()) {
      message.device = static_cast<int>(own - devices.begin());
    } else if (message.device != quota::kHostMemory) {
      message.device = kNoDevice;
    }
  }
  return descriptor < 0 ? SendControl(control, message)
                        : SendControl(control, message, {descriptor});
}

void Supervisor::EndClaim(const std::string& claim, const std::string& why) {
  constexpr std::chrono::seconds kPatience(1);
  ControlMessage stop;
  stop.type = ControlType::kStop;
  stop.SetText(why);
  for (auto& [control, worker] : workers_) {
    if (worker->claim != claim || worker->kill_at != Clock::time_point::max()) {
      continue;
    }
    worker->kill_at = Clock::now() + kPatience;
    (void)SendControl(control, stop);
  }
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

bool Supervisor::Recall(const Worker& worker, const ControlMessage& charge) {
  if (!RecallFrom(worker.vgpu, charge.device, &worker)) return false;
  waiting_charges_.push_back({worker.process.control, charge, Clock::now() + kRecallPatience});
  return true;
}

// All of it: memory goes back by whole chunks, and no number of bytes says how many of these are
// whole.
bool Supervisor::RecallFrom(const std::string& vgpu, int device, const Worker* but_not) {
  ControlMessage recall;
  recall.type = ControlType::kRecallCredit;
  recall.device = device;
  recall.a = ~0ull >> 1;
  bool asked = false;
  for (auto& [control, other] : workers_) {
    if (other.get() == but_not || other->vgpu != vgpu || other->charges[device].bytes() == 0) {
      continue;
    }
    asked = Tell(control, recall).ok() || asked;
  }
  return asked;
}

void Supervisor::RetryCharges() {
  std::vector<WaitingCharge> waiting = std::exchange(waiting_charges_, {});
  for (WaitingCharge& charge : waiting) {
    auto worker = workers_.find(charge.control);
    if (worker == workers_.end()) {
      continue;
    }
    bool is_last_try = Clock::now() >= charge.until;
    if (!AnswerCharge(*worker->second, charge.charge, is_last_try)) {
      waiting_charges_.push_back(charge);
    }
  }
}

// The worker's end of the socket is closed: its process is ending, or has shut us out. Its memory
// is back once the process is gone, which the driver may take seconds for: nobody waits.
void Supervisor::ShutOut(Worker& worker) {
  ForgetDescriptor(epoll_, worker.process.control);
  KillProcess(worker.process);
  if (worker.process.pid_fd < 0) {  // a kernel without such descriptors
    Bury(worker.process.control);
  }
}

// Its process is gone, whoever may still hold an end of the socket; what it said last is read.
void Supervisor::EndWorker(int control) {
  while (TakeMessage(*workers_.find(control)->second).ok()) {
  }
  Bury(control);
}

void Supervisor::Bury(int control) {
  auto found = workers_.find(control);
  Worker& worker = *found->second;
  ForgetDescriptor(epoll_, control);
  if (worker.process.pid_fd >= 0) {
    ForgetDescriptor(epoll_, worker.process.pid_fd);
    processes_.erase(worker.process.pid_fd);
  }
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
  leases_.Leave(control, SteadyNow());
  net_.Leave(control);
  if (swap_ != nullptr) {
    swap_->Leave(control);
  }
  if (worker.user) {
    users_.GiveBack(worker.vgpu);
  }
  cgroups_.Drop(worker.vgpu);
  worker.charges.clear();  // refunds
  if (overhead_ != nullptr) {
    overhead_->Leave(control);
  }
  if (!worker.claim.empty()) {
    pool_.Leave(worker.claim);
  }
  const std::string group = worker.claim.empty() ? "" : worker.mps_group;
  for (auto at = shared_.begin(); at != shared_.end();) {
    ShareToken token = (at++)->first;
    DropHolder(token, control, true);
  }
  ++totals_.sessions;
  CloseLedger(worker);
  close(control);
  close(worker.process.pid_fd);
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
