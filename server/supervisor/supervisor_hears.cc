// SPDX-License-Identifier: Apache-2.0
// What workers tell and ask the supervisor. Each may have been taken over: what it says is held
// against our own clock and ledger, and costs the others a bounded time.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "proto/printable.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxWaitingCharges = 64;  // of one worker: more than it has threads
constexpr size_t kMaxSkippedNames = 4096;  // kernels in a report
constexpr std::string_view kOtherKernels = "(others)";

}  // namespace

Status Supervisor::TakeMessage(Worker& worker) {
  control::FromWorker message;
  int descriptor = -1;
  Status received = TakeFromWorker(worker.process.control, &message, &descriptor);
  if (received.ok()) {
    control::MapDevice(&message, [&](int device) { return HostDevice(worker, device); });
    AnswerWorker(worker, message, &descriptor);
  }
  closer_.Close(descriptor);
  return received;
}

void Supervisor::HearWorker(Worker& worker) {
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (!worker.rate.Take(now)) {
      return Mute(worker);
    }
    Status received = TakeMessage(worker);
    if (received.code() == Code::kTimeout) {
      return;
    }
    if (!received.ok()) {
      bool is_end = received.code() == Code::kDisconnected;
      return ShutOut(worker, is_end ? "" : received.message());
    }
  }
}

// It is not polled either: its process's end is heard by another descriptor.
void Supervisor::Mute(Worker& worker) {
  ForgetDescriptor(epoll_, worker.process.control);
  worker.muted_until = Clock::now() + kMessagePause;
}

bool Supervisor::Unmute() {
  bool some = false;
  const Clock::time_point now = Clock::now();
  for (auto& [control, worker] : workers_) {
    if (worker->muted_until == Clock::time_point{} || worker->is_shut_out) {
      continue;
    }
    if (now >= worker->muted_until) {
      worker->muted_until = {};
      WatchDescriptor(epoll_, control);
    } else {
      some = true;
    }
  }
  return some;
}

void Supervisor::AnswerWorker(Worker& worker, const control::FromWorker& message, int* descriptor) {
  if (worker.has_ended) {
    return;
  }
  const int control = worker.process.control;
  const quota::Ns now = SteadyNow();
  auto hear = [&](const auto& each) {
    using M = std::remove_cvref_t<decltype(each)>;
    if constexpr (control::NamesDevice<M>) {
      if (each.device == kNoDevice) return;
    }
    if constexpr (requires { leases_.Hear(control, each, now); }) {
      leases_.Hear(control, each, now);
    } else if constexpr (requires { net_.Hear(control, each, now); }) {
      net_.Hear(control, each, now);
    } else if constexpr (requires { swap_->Hear(control, each, now); }) {
      if (swap_ != nullptr) swap_->Hear(control, each, now);
    } else if constexpr (M::kCarries != control::Carries::kNothing) {
      Hear(worker, each, descriptor);
    } else {
      Hear(worker, each);
    }
  };
  std::visit(hear, message);
}

void Supervisor::Hear(Worker& worker, const control::Ended& message) {
  worker.has_ended = true;
  worker.ended = Printable(message.why.str(), kMaxMessageBytes);
  totals_.bytes_up += message.received_bytes;
  totals_.bytes_down += message.sent_bytes;
}

void Supervisor::Hear(Worker&, const control::Skipped& message) {
  std::string name = Printable(message.kernel.str(), kMaxMessageBytes);
  if (totals_.skipped.size() >= kMaxSkippedNames && totals_.skipped.count(name) == 0) {
    name = kOtherKernels;
  }
  auto [entry, is_new] = totals_.skipped.try_emplace(name);
  entry->second += message.launches;
  if (is_new) {
    spdlog::warn("kernel {}: {} launches skipped, machine code alone", name, message.launches);
  }
}

void Supervisor::Hear(Worker&, const control::Peak& message) {
  totals_.AddPeak(message.device, message.bytes);
}

void Supervisor::Hear(Worker& worker, const control::Refund& message) {
  worker.charges[message.device].RefundSome(message.bytes);
}

void Supervisor::Hear(Worker& worker, const control::AskUsage& question) {
  const int control = worker.process.control;
  if (overhead_ != nullptr) {
    overhead_->Expect(control, question.device);
  }
  const quota::Usage usage = UsageOf(worker, question.device);
  (void)Tell(control,
             control::Usage{.id = question.id,
                            .unspent_by_others_bytes = UnspentByOthers(worker, question.device),
                            .charged_bytes = usage.charged_bytes,
                            .quota_bytes = usage.quota_bytes});
}

void Supervisor::Hear(Worker& worker, const control::Unspent& message) {
  worker.unspent[message.device] = message.bytes;
}

void Supervisor::Hear(Worker& worker, const control::Charge& message) {
  const int control = worker.process.control;
  auto waiting = std::count_if(waiting_charges_.begin(), waiting_charges_.end(),
                               [control](const auto& charge) { return charge.control == control; });
  if (static_cast<size_t>(waiting) >= kMaxWaitingCharges) {
    return ShutOut(worker, "more than " + std::to_string(kMaxWaitingCharges) +
                               " charges of it wait for an answer");
  }
  bool is_host = message.device == quota::kHostMemory;
  if (AnswerCharge(worker, message, is_host) || Recall(worker, message)) {
    return;
  }
  if (!AnswerCharge(worker, message, true)) {  // for room
    waiting_charges_.push_back({control, message, Clock::now()});
  }
}

void Supervisor::Hear(Worker& worker, const control::KeepImage& message, int* descriptor) {
  (void)images_.Take(ImageNote::kNew, worker.tenant, worker.number, message.hash, descriptor);
}

void Supervisor::Hear(Worker& worker, const control::ImageRead& message) {
  int none = -1;
  (void)images_.Take(message.is_intact ? ImageNote::kRead : ImageNote::kCorrupt, worker.tenant,
                     worker.number, message.hash, &none);
}

// A pid means something on its own host only.
void Supervisor::Hear(Worker& worker, const control::AskProcesses& question) {
  control::Processes answer{.id = question.id};
  for (auto& [control, other] : workers_) {
    auto charge = other->charges.find(question.device);
    uint64_t bytes = charge == other->charges.end() ? 0 : charge->second.bytes();
    bytes += overhead_ == nullptr ? 0 : overhead_->charged_bytes(control, question.device);
    if (other->vgpu != worker.vgpu || other->told_host != worker.told_host || bytes == 0) {
      continue;
    }
    if (answer.total++ >= question.known && answer.some.items.size() < answer.some.kMaxSize) {
      // Of its own unspent credit, the asker's client knows more.
      uint64_t unspent = other.get() == &worker ? 0 : UnspentOf(*other, question.device);
      answer.some.items.push_back({other->client_pid, bytes - unspent});
    }
  }
  (void)Tell(worker.process.control, answer);
}

bool Supervisor::AnswerCharge(Worker& worker, const control::Charge& charge, bool is_last_try) {
  control::ChargeReply answer{.id = charge.id};
  std::string why;
  if (overhead_ != nullptr) {
    overhead_->Expect(worker.process.control, charge.device);
  }
  const uint64_t left = LeftToTenant(worker, charge.device);
  SwapDesk::Room room = SwapDesk::Room::kNever;
  if (charge.bytes <= left) {
    room = RoomFor(worker, charge, &why);
  } else {
    why = fmt::format("device memory: asked {} bytes, {} free of the tenant's {}", charge.bytes,
                      left, options_.tenant_memory_bytes);
  }
  if (room == SwapDesk::Room::kComes) {
    return false;
  }
  Result<quota::Charge> reserved = room == SwapDesk::Room::kNever
                                       ? Result<quota::Charge>(Status(Code::kQuotaExceeded, why))
                                       : ledger_.Reserve(worker.vgpu, charge.device, charge.bytes);
  if (reserved.ok()) {
    worker.charges[charge.device].Merge(std::move(*reserved));
    if (charge.device != quota::kHostMemory) {
      totals_.NoteCharged(charge.device, ledger_.charged_on_device(charge.device));
    }
    answer.is_granted = true;
  } else {
    if (!is_last_try && room == SwapDesk::Room::kThere) {
      return false;
    }
    uint64_t overhead = OverheadOf(worker.vgpu, charge.device, true);
    why = reserved.status().message();
    why += overhead == 0 ? "" : "; " + std::to_string(overhead) + " are contexts and machine code";
    answer.why = why;
    if (std::has_single_bit(++worker.refusals)) {  // the 1st, 2nd, 4th ...
      spdlog::info("{}: {}{}", worker.who, why,
                   worker.refusals == 1 ? "" : fmt::format(" ({} times)", worker.refusals));
    }
  }
  const quota::Usage usage = UsageOf(worker, charge.device);
  answer.charged_bytes = usage.charged_bytes;
  answer.quota_bytes = usage.quota_bytes;
  (void)Tell(worker.process.control, answer);
  return true;
}

// Of --tenant-mem, by what the vGPUs of all its sessions hold.
uint64_t Supervisor::LeftToTenant(const Worker& worker, int device) const {
  if (options_.tenant_memory_bytes == 0 || worker.counted.empty() || device == quota::kHostMemory) {
    return ~uint64_t{0};
  }
  std::set<std::string> vgpus = {worker.vgpu};
  for (const auto& [control, other] : workers_) {
    if (other->counted == worker.counted) vgpus.insert(other->vgpu);
  }
  uint64_t left = options_.tenant_memory_bytes;
  for (const std::string& vgpu : vgpus) {
    left -= std::min(left, ledger_.usage(vgpu, device).charged_bytes);
  }
  return left;
}

// What others of its tenant leave no room for is told as charged.
quota::Usage Supervisor::UsageOf(const Worker& worker, int device) const {
  quota::Usage usage = ledger_.usage(worker.vgpu, device);
  const uint64_t free = std::min(usage.free_bytes(), LeftToTenant(worker, device));
  usage.charged_bytes = std::max(usage.charged_bytes, usage.quota_bytes - free);
  return usage;
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

bool Supervisor::Recall(const Worker& worker, const control::Charge& charge) {
  if (!RecallFrom(worker.vgpu, charge.device, &worker)) return false;
  waiting_charges_.push_back({worker.process.control, charge, Clock::now() + kRecallPatience});
  return true;
}

// All of it: memory goes back by whole chunks, and no number of bytes says how many of these are
// whole.
bool Supervisor::RecallFrom(const std::string& vgpu, int device, const Worker* but_not) {
  const control::RecallCredit recall{.device = device, .bytes = ~0ull >> 1};
  bool asked = false;
  for (auto& [control, other] : workers_) {
    if (other.get() == but_not || other->vgpu != vgpu || other->charges[device].bytes() == 0) {
      continue;
    }
    asked = Tell(control, recall).ok() || asked;
  }
  return asked;
}

// A grant may have been on its way to a session when that was asked, and a client on a loaded
// machine answers late. What the asker's program was told is free should be there.
bool Supervisor::RecallsAgain(const Worker& worker, WaitingCharge* waiting) {
  const control::Charge& charge = waiting->charge;
  if (charge.device == quota::kHostMemory || waiting->recalls >= kMaxRecalls) return false;
  const quota::Usage usage = ledger_.usage(worker.vgpu, charge.device);
  const uint64_t unspent = std::min(UnspentByOthers(worker, charge.device), usage.charged_bytes);
  const uint64_t in_use = usage.charged_bytes - unspent;
  if (unspent == 0 || in_use > usage.quota_bytes || charge.bytes > usage.quota_bytes - in_use ||
      !RecallFrom(worker.vgpu, charge.device, &worker)) {
    return false;
  }
  ++waiting->recalls;
  waiting->until = Clock::now() + kRecallPatience;
  return true;
}

void Supervisor::RetryCharges() {
  std::vector<WaitingCharge> waiting = std::exchange(waiting_charges_, {});
  for (WaitingCharge& charge : waiting) {
    auto worker = workers_.find(charge.control);
    if (worker == workers_.end()) {
      continue;
    }
    bool is_last_try = Clock::now() >= charge.until;
    if (is_last_try && RecallsAgain(*worker->second, &charge)) {
      is_last_try = false;
    }
    if (!AnswerCharge(*worker->second, charge.charge, is_last_try)) {
      waiting_charges_.push_back(charge);
    }
  }
}

}  // namespace farcall::server
