// SPDX-License-Identifier: Apache-2.0
// Questions to the supervisor's ledger.
#include "server/worker/connection/control_client.h"

#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "server/control/control_socket.h"
#include "server/control/memory_file.h"

namespace farcall::server {

ControlClient::ControlClient(int fd) : fd_(fd) {
  use().OnUnspent([fd](int device, uint64_t bytes) {
    (void)control::SendToSupervisor(fd, control::Unspent{.device = device, .bytes = bytes});
  });
}

template <typename Question>
Result<typename Question::Reply> ControlClient::Ask(Question question, int send, int* received) {
  if (received != nullptr) *received = -1;
  std::unique_lock lock(mutex_);
  question.id = ++last_id_;
  auto place = waiting_.emplace(question.id, Waiting()).first;
  lock.unlock();  // who takes answers in is not held up
  Status sent = send < 0 ? control::SendToSupervisor(fd_, question)
                         : control::SendToSupervisor(fd_, question, {send});
  lock.lock();
  if (!sent.ok()) {
    waiting_.erase(place);
    return sent;
  }
  answered_.wait(lock, [&] { return ended_ || place->second.answer; });
  std::optional<control::ToWorker> answer = std::move(place->second.answer);
  int descriptor = place->second.descriptor;
  waiting_.erase(place);
  if (received != nullptr)
    *received = descriptor;
  else if (descriptor >= 0)
    close(descriptor);
  if (!answer) return Status(Code::kDisconnected, "the server is gone");
  auto* reply = std::get_if<typename Question::Reply>(&*answer);
  if (reply == nullptr) return Status(Code::kInternal, "the server answered another question");
  return std::move(*reply);
}

Status ControlClient::Charge(int device, uint64_t bytes) {
  waiting_charges_.fetch_add(1);  // TakeAnswer takes it off: what follows the answer counts as work
  auto answer = Ask(control::Charge{.device = device, .bytes = bytes});
  if (!answer.ok()) {
    waiting_charges_.fetch_sub(1);
    return answer.status();
  }
  if (answer->is_granted) {
    use().Charged(device, static_cast<int64_t>(bytes));
    return {};
  }
  return {Code::kQuotaExceeded, answer->why};
}

void ControlClient::Refund(int device, uint64_t bytes) {
  use().Charged(device, -static_cast<int64_t>(bytes));
  // A supervisor that is gone has no ledger.
  (void)control::SendToSupervisor(fd_, control::Refund{.device = device, .bytes = bytes});
}

bool ControlClient::NoteDeviceFull(int device, uint64_t bytes) {
  return swaps_ &&
         control::SendToSupervisor(fd_, control::DeviceFull{.device = device, .bytes = bytes}).ok();
}

quota::Usage ControlClient::Query(int device) {
  auto answer = Ask(control::AskUsage{.device = device});
  if (!answer.ok()) return {};
  return {answer->quota_bytes, answer->charged_bytes,
          std::min(answer->unspent_by_others_bytes, answer->charged_bytes)};
}

Status ControlClient::Share(int descriptor, int device, uint64_t bytes, ShareToken* token) {
  auto answer = Ask(control::Share{.device = device, .bytes = bytes}, descriptor);
  if (!answer.ok()) return answer.status();
  if (!answer->is_shared) return {Code::kUnavailable, answer->why};
  *token = answer->token;
  return {};
}

Status ControlClient::Redeem(const ShareToken& token, Shared* shared) {
  auto answer = Ask(control::Redeem{.token = token}, -1, &shared->descriptor);
  if (!answer.ok()) return answer.status();
  if (!answer->is_there || shared->descriptor < 0) return {Code::kUnavailable, answer->why};
  shared->device = answer->device;
  shared->bytes = answer->bytes;
  return {};
}

void ControlClient::DropShared(const ShareToken& token) {
  (void)control::SendToSupervisor(fd_, control::Drop{.token = token});
}

std::vector<ProcessUse> ControlClient::Processes(int device) {
  std::vector<ProcessUse> processes;
  for (;;) {
    auto answer = Ask(control::AskProcesses{.device = device, .known = processes.size()});
    if (!answer.ok()) return processes;
    for (const control::ProcessEntry& entry : answer->some.items)
      processes.push_back({entry.pid, entry.bytes});
    if (answer->some.items.empty() || processes.size() >= answer->total) return processes;
  }
}

void ControlClient::Keep(const Hash256& hash, std::span<const std::byte> bytes) {
  const int file = MakeMemoryFile("farcall-image", bytes);
  if (file < 0) return;  // the next session sends it again
  (void)control::SendToSupervisor(fd_, control::KeepImage{.hash = hash}, {file});
  close(file);
}

void ControlClient::NoteRead(const Hash256& hash, bool intact) {
  (void)control::SendToSupervisor(fd_, control::ImageRead{.hash = hash, .is_intact = intact});
}

bool ControlClient::TakeAnswer(const control::ToWorker& message, std::vector<int>* descriptors) {
  const uint64_t id = std::visit(
      [](const auto& each) {
        if constexpr (IsAnswer<std::remove_cvref_t<decltype(each)>>)
          return each.id;
        else
          return uint64_t{0};
      },
      message);
  if (id == 0) return false;
  std::lock_guard lock(mutex_);
  auto place = waiting_.find(id);
  if (place == waiting_.end()) return true;
  if (std::holds_alternative<control::ChargeReply>(message)) waiting_charges_.fetch_sub(1);
  place->second.answer = message;
  if (!descriptors->empty()) {
    place->second.descriptor = descriptors->back();
    descriptors->pop_back();
  }
  answered_.notify_all();
  return true;
}

void ControlClient::End() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  answered_.notify_all();
}

}  // namespace farcall::server
