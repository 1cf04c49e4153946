// SPDX-License-Identifier: Apache-2.0
// What workers tell and ask the supervisor. Each may have been taken over: what it says is held
// against our own clock and ledger, and costs the others a bounded time.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/printable.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxWaitingCharges = 64;  // of one worker: more than it has threads
constexpr size_t kMaxSkippedNames = 4096;  // kernels in a report
constexpr std::string_view kOtherKernels = "(others)";

}  // namespace

Status Supervisor::TakeMessage(Worker& worker) {
  ControlMessage message;
  int descriptor = -1;
  Status received = TakeFromWorker(worker.process.control, &message, &descriptor);
  if (received.ok()) {
    message.device = HostDevice(worker, message.device);
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

void Supervisor::HearEnded(Worker& worker, const ControlMessage& message) {
  worker.has_ended = true;
  worker.ended = Printable(message.Text(), kMaxMessageBytes);
  totals_.bytes_up += message.a;
  totals_.bytes_down += message.b;
}

void Supervisor::HearSkipped(const ControlMessage& message) {
  std::string name = Printable(message.Text(), kMaxMessageBytes);
  if (totals_.skipped.size() >= kMaxSkippedNames && totals_.skipped.count(name) == 0) {
    name = kOtherKernels;
  }
  auto [entry, is_new] = totals_.skipped.try_emplace(name);
  entry->second += message.a;
  if (is_new) {
    spdlog::warn("kernel {}: {} launches skipped, machine code alone", name, message.a);
  }
}

void Supervisor::AnswerWorker(Worker& worker, const ControlMessage& message, int* descriptor) {
  if (worker.has_ended) {
    return;
  }
  const int control = worker.process.control;
  switch (message.type) {
    case ControlType::kEnded:
      return HearEnded(worker, message);
    case ControlType::kSkipped:
      return HearSkipped(message);
    case ControlType::kRedeem:
      return AnswerRedeem(worker, message);
    case ControlType::kDrop:
      return DropHolder({message.b, message.c}, control, false);
    default:
      break;
  }
  const quota::Ns now = SteadyNow();
  if (leases_.Hear(control, message, now) || net_.Hear(control, message, now) ||
      (swap_ != nullptr && swap_->Hear(control, message, now))) {
    return;
  }
  HearOnDevice(worker, message, descriptor);
}

void Supervisor::HearOnDevice(Worker& worker, const ControlMessage& message, int* descriptor) {
  const ControlType type = message.type;
  bool is_host = message.device == quota::kHostMemory &&
                 (type == ControlType::kCharge || type == ControlType::kRefund);
  bool known_device =
      message.device >= 0 && static_cast<size_t>(message.device) < devices_.report.devices.size();
  if (!known_device && !is_host) {
    return;
  }
  if (type == ControlType::kPeak) {
    totals_.AddPeak(message.device, message.a);
  } else if (type == ControlType::kShare) {
    AnswerShare(worker, message, descriptor);
  } else if (type == ControlType::kRefund) {
    worker.charges[message.device].RefundSome(message.a);
  } else if (type == ControlType::kCharge) {
    HearCharge(worker, message);
  } else if (type == ControlType::kAskUsage) {
    ControlMessage answer;
    answer.type = ControlType::kUsage;
    answer.id = message.id;
    if (overhead_ != nullptr) {
      overhead_->Expect(worker.process.control, message.device);
    }
    Reply(worker, answer, message.device);
  } else if (type == ControlType::kUnspent) {
    worker.unspent[message.device] = message.a;
  } else if (type == ControlType::kAskProcesses) {
    ListProcesses(worker, message);
  }
}

void Supervisor::HearCharge(Worker& worker, const ControlMessage& message) {
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
    if (std::has_single_bit(++worker.refusals)) {  // the 1st, 2nd, 4th ...
      spdlog::info("{}: {}{}", worker.who, why,
                   worker.refusals == 1 ? "" : fmt::format(" ({} times)", worker.refusals));
    }
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

}  // namespace farcall::server
