// SPDX-License-Identifier: Apache-2.0
// Questions to the supervisor's ledger.
#include "server/worker/control_client.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace farcall::server {

ControlClient::ControlClient(int fd) : fd_(fd) {
  use().OnUnspent([fd](int device, uint64_t bytes) {
    ControlMessage message;
    message.type = ControlType::kUnspent;
    message.device = device;
    message.a = bytes;
    (void)SendToSupervisor(fd, message);
  });
}

Status ControlClient::Ask(ControlMessage question, ControlMessage* answer, int send,
                          int* received) {
  std::unique_lock lock(mutex_);
  question.id = ++last_id_;
  auto place = waiting_.emplace(question.id, Waiting()).first;
  lock.unlock();  // who takes answers in is not held up
  Status sent =
      send < 0 ? SendToSupervisor(fd_, question) : SendToSupervisor(fd_, question, {send});
  lock.lock();
  if (!sent.ok()) {
    waiting_.erase(place);
    return sent;
  }
  answered_.wait(lock, [&] { return ended_ || place->second.answer.type != ControlType::kNone; });
  *answer = place->second.answer;
  int descriptor = place->second.descriptor;
  waiting_.erase(place);
  if (received != nullptr) {
    *received = descriptor;
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  if (answer->type == ControlType::kNone) {
    return {Code::kDisconnected, "the server is gone"};
  }
  return {};
}

Status ControlClient::Charge(int device, uint64_t bytes) {
  ControlMessage question, answer;
  question.type = ControlType::kCharge;
  question.device = device;
  question.a = bytes;
  waiting_charges_.fetch_add(1);  // TakeAnswer takes it off: what follows the answer counts as work
  Status asked = Ask(question, &answer);
  if (!asked.ok()) {
    waiting_charges_.fetch_sub(1);
    return asked;
  }
  if (answer.a == 1) {
    use().Charged(device, static_cast<int64_t>(bytes));
    return {};
  }
  return {Code::kQuotaExceeded, std::string(answer.Text())};
}

void ControlClient::Refund(int device, uint64_t bytes) {
  use().Charged(device, -static_cast<int64_t>(bytes));
  ControlMessage message;
  message.type = ControlType::kRefund;
  message.device = device;
  message.a = bytes;
  (void)SendToSupervisor(fd_, message);  // a supervisor that is gone has no ledger
}

bool ControlClient::NoteDeviceFull(int device, uint64_t bytes) {
  if (!swaps_) {
    return false;
  }
  ControlMessage message;
  message.type = ControlType::kDeviceFull;
  message.device = device;
  message.a = bytes;
  return SendToSupervisor(fd_, message).ok();
}

quota::Usage ControlClient::Query(int device) {
  ControlMessage question, answer;
  question.type = ControlType::kAskUsage;
  question.device = device;
  if (!Ask(question, &answer).ok()) {
    return {};
  }
  return {answer.c, answer.b, std::min(answer.a, answer.b)};
}

Status ControlClient::Share(int descriptor, int device, uint64_t bytes, ShareToken* token) {
  ControlMessage question, answer;
  question.type = ControlType::kShare;
  question.device = device;
  question.a = bytes;
  FARCALL_TRY(Ask(question, &answer, descriptor));
  if (answer.a != 1) {
    return {Code::kUnavailable, std::string(answer.Text())};
  }
  *token = {answer.b, answer.c};
  return {};
}

Status ControlClient::Redeem(const ShareToken& token, Shared* shared) {
  ControlMessage question, answer;
  question.type = ControlType::kRedeem;
  question.b = token.high;
  question.c = token.low;
  FARCALL_TRY(Ask(question, &answer, -1, &shared->descriptor));
  if (answer.a != 1 || shared->descriptor < 0) {
    return {Code::kUnavailable, std::string(answer.Text())};
  }
  shared->device = answer.device;
  shared->bytes = answer.b;
  return {};
}

void ControlClient::DropShared(const ShareToken& token) {
  ControlMessage message;
  message.type = ControlType::kDrop;
  message.b = token.high;
  message.c = token.low;
  (void)SendToSupervisor(fd_, message);
}

std::vector<ProcessUse> ControlClient::Processes(int device) {
  std::vector<ProcessUse> processes;
  ControlMessage question, answer;
  question.type = ControlType::kAskProcesses;
  question.device = device;
  do {
    question.a = processes.size();
    if (!Ask(question, &answer).ok()) {
      break;
    }
    size_t count = std::min<size_t>(answer.b, kProcessesPerMessage);
    for (size_t i = 0; i < count; ++i) {
      ControlProcess entry;
      std::memcpy(&entry, answer.text + i * sizeof(entry), sizeof(entry));
      processes.push_back({static_cast<uint32_t>(entry.pid), entry.bytes});
    }
  } while (answer.b != 0 && processes.size() < answer.a);
  return processes;
}

bool ControlClient::TakeAnswer(const ControlMessage& message, std::vector<int>* descriptors) {
  if (message.type != ControlType::kChargeReply && message.type != ControlType::kUsage &&
      message.type != ControlType::kProcesses && message.type != ControlType::kShareReply &&
      message.type != ControlType::kRedeemReply) {
    return false;
  }
  std::lock_guard lock(mutex_);
  auto place = waiting_.find(message.id);
  if (place == waiting_.end()) {
    return true;
  }
  if (message.type == ControlType::kChargeReply) {
    waiting_charges_.fetch_sub(1);
  }
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
