// SPDX-License-Identifier: Apache-2.0
// What workers tell and ask the supervisor. Each may have been taken over: what it says is held
// against our own clock and ledger, and costs the others a bounded time.
#include <spdlog/spdlog.h>

#include <bit>
#include <type_traits>
#include <utility>
#include <variant>

#include "proto/printable.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxSkippedNames = 4096;  // kernels in a report
constexpr std::string_view kOtherKernels = "(others)";

}  // namespace

Status Supervisor::TakeMessage(WorkerSession& worker) {
  control::FromWorker message;
  int descriptor = -1;
  Status received = TakeFromWorker(worker.process.control, &message, &descriptor);
  if (received.ok()) {
    control::MapDevice(&message,
                       [&](int device) { return SessionTable::HostDevice(worker, device); });
    AnswerWorker(worker, message, &descriptor);
  }
  closer_.Close(descriptor);
  return received;
}

void Supervisor::ReadWorker(WorkerSession& worker) {
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (!worker.rate.Take(now)) return Mute(worker);
    Status received = TakeMessage(worker);
    if (received.code() == Code::kTimeout) return;
    if (!received.ok()) {
      bool is_end = received.code() == Code::kDisconnected;
      return ShutOut(worker, is_end ? "" : received.message());
    }
  }
}

// It is not polled either: its process's end is heard by another descriptor.
void Supervisor::Mute(WorkerSession& worker) {
  ForgetDescriptor(epoll_, worker.process.control);
  worker.muted_until = Clock::now() + kMessagePause;
}

bool Supervisor::Unmute() {
  bool some = false;
  const Clock::time_point now = Clock::now();
  for (auto& [control, worker] : sessions_) {
    if (worker->muted_until == Clock::time_point{} || worker->is_shut_out) continue;
    if (now >= worker->muted_until) {
      worker->muted_until = {};
      WatchDescriptor(epoll_, control);
    } else {
      some = true;
    }
  }
  return some;
}

void Supervisor::AnswerWorker(WorkerSession& worker, const control::FromWorker& message,
                              int* descriptor) {
  if (worker.has_ended) return;
  const int control = worker.process.control;
  const quota::Ns now = SteadyNow();
  auto hear = [&](const auto& each) {
    using M = std::remove_cvref_t<decltype(each)>;
    if constexpr (control::NamesDevice<M>) {
      if (each.device == SessionTable::kNoDevice) return;
    }
    if constexpr (requires { charges_.OnMessage(control, each, now); })
      charges_.OnMessage(control, each, now);
    else if constexpr (requires { time_.OnMessage(control, each, now); })
      time_.OnMessage(control, each, now);
    else if constexpr (requires { net_.OnMessage(control, each, now); })
      net_.OnMessage(control, each, now);
    else if constexpr (requires { swap_.OnMessage(control, each, now); })
      swap_.OnMessage(control, each, now);
    else if constexpr (M::kCarries != control::Carries::kNothing)
      OnMessage(worker, each, descriptor);
    else
      OnMessage(worker, each);
  };
  std::visit(hear, message);
}

void Supervisor::OnMessage(WorkerSession& worker, const control::Ended& message) {
  worker.has_ended = true;
  worker.ended = Printable(message.why.str(), kMaxMessageBytes);
  totals_.bytes_up += message.received_bytes;
  totals_.bytes_down += message.sent_bytes;
}

void Supervisor::OnMessage(WorkerSession&, const control::Skipped& message) {
  std::string name = Printable(message.kernel.str(), kMaxMessageBytes);
  if (totals_.skipped.size() >= kMaxSkippedNames && totals_.skipped.count(name) == 0)
    name = kOtherKernels;
  auto [entry, is_new] = totals_.skipped.try_emplace(name);
  entry->second += message.launches;
  if (is_new)
    spdlog::warn("kernel {}: {} launches skipped, machine code alone", name, message.launches);
}

void Supervisor::OnMessage(WorkerSession&, const control::Peak& message) {
  totals_.AddPeak(message.device, message.bytes);
}

void Supervisor::OnMessage(WorkerSession& worker, const control::KeepImage& message,
                           int* descriptor) {
  (void)images_.Take(ImageNote::kNew, worker.tenant, worker.number, message.hash, descriptor);
}

void Supervisor::OnMessage(WorkerSession& worker, const control::ImageRead& message) {
  int none = -1;
  (void)images_.Take(message.is_intact ? ImageNote::kRead : ImageNote::kCorrupt, worker.tenant,
                     worker.number, message.hash, &none);
}

void Supervisor::OnMessage(WorkerSession& worker, const control::Share& message, int* descriptor) {
  const int control = worker.process.control;
  (void)Tell(control, shared_.Share(control, worker.vgpu, charges_.Find(control, message.device),
                                    message, descriptor));
}

void Supervisor::OnMessage(WorkerSession& worker, const control::Redeem& message) {
  const int control = worker.process.control;
  int descriptor = -1;
  control::RedeemReply answer = shared_.Redeem(control, worker.vgpu, message, &descriptor);
  (void)Tell(control, std::move(answer), descriptor);
}

void Supervisor::OnMessage(WorkerSession& worker, const control::Drop& message) {
  shared_.Drop(worker.process.control, message.token);
}

// A pid means something on its own host only.
void Supervisor::OnMessage(WorkerSession& worker, const control::AskProcesses& question) {
  control::Processes answer{.id = question.id};
  for (auto& [control, other] : sessions_) {
    uint64_t bytes = charges_.charged_bytes(control, question.device);
    bytes += driver_memory_.ChargedOf(control, question.device);
    if (other->vgpu != worker.vgpu || other->raw_client_host != worker.raw_client_host ||
        bytes == 0)
      continue;
    if (answer.total++ >= question.known && answer.some.items.size() < answer.some.kMaxSize) {
      // Of its own unspent credit, the asker's client knows more.
      uint64_t unspent = other.get() == &worker ? 0 : charges_.UnspentOf(control, question.device);
      answer.some.items.push_back({other->client_pid, bytes - unspent});
    }
  }
  (void)Tell(worker.process.control, answer);
}

}  // namespace farcall::server
