// SPDX-License-Identifier: Apache-2.0
// Questions to the supervisor's ledger.
#include "server/control_client.h"

namespace farcall::server {

Status ControlClient::Ask(ControlMessage question, ControlMessage* answer) {
  std::unique_lock lock(mutex_);
  question.id = ++last_id_;
  auto place = waiting_.emplace(question.id, ControlMessage()).first;
  FARCALL_TRY(SendControl(fd_, question));
  answered_.wait(lock, [&] { return ended_ || place->second.type != ControlType::kNone; });
  *answer = place->second;
  waiting_.erase(place);
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
  FARCALL_TRY(Ask(question, &answer));
  if (answer.a == 1) {
    return {};
  }
  return {Code::kQuotaExceeded, std::string(answer.Text())};
}

void ControlClient::Refund(int device, uint64_t bytes) {
  ControlMessage message;
  message.type = ControlType::kRefund;
  message.device = device;
  message.a = bytes;
  (void)SendControl(fd_, message);  // a supervisor that is gone has no ledger
}

quota::Usage ControlClient::Query(int device) {
  ControlMessage question, answer;
  question.type = ControlType::kAskUsage;
  question.device = device;
  if (!Ask(question, &answer).ok()) {
    return {};
  }
  return {answer.c, answer.b};
}

bool ControlClient::TakeAnswer(const ControlMessage& message) {
  if (message.type != ControlType::kChargeReply && message.type != ControlType::kUsage) {
    return false;
  }
  std::lock_guard lock(mutex_);
  auto place = waiting_.find(message.id);
  if (place != waiting_.end()) {
    place->second = message;
    answered_.notify_all();
  }
  return true;
}

void ControlClient::End() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  answered_.notify_all();
}

}  // namespace farcall::server
