// SPDX-License-Identifier: Apache-2.0
// What the sessions of one vGPU share: descriptors under tokens, each with its charge and holders.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/handshake.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxSharedPerWorker = 16384;  // each holds a descriptor of ours

ShareToken NewToken() {
  std::array<uint8_t, sizeof(ShareToken)> random;
  RandomBytes(random);
  ShareToken token;
  std::memcpy(&token.high, random.data(), 8);
  std::memcpy(&token.low, random.data() + 8, 8);
  return token;
}

}  // namespace

void Supervisor::AnswerShare(Worker& worker, const ControlMessage& message,
                             std::vector<int>* descriptors) {
  ControlMessage answer;
  answer.type = ControlType::kShareReply;
  answer.id = message.id;
  int control = worker.process.control;
  auto held = std::count_if(shared_.begin(), shared_.end(), [control](const auto& entry) {
    return entry.second.holders.count(control) != 0;
  });
  if (descriptors->size() != 1) {
    answer.SetText("the server has no descriptor left to share memory with");
  } else if (static_cast<size_t>(held) >= kMaxSharedPerWorker) {
    answer.SetText("a session may share " + std::to_string(kMaxSharedPerWorker) + " things");
  } else {
    ShareToken token = NewToken();
    SharedObject& object = shared_[token];
    object.vgpu = worker.vgpu;
    object.device = message.device;
    object.bytes = message.a;
    object.descriptor = descriptors->back();
    descriptors->clear();
    object.charge = worker.charges[message.device].Split(message.a);
    object.holders[control] = 1;
    answer.a = 1;
    answer.b = token.high;
    answer.c = token.low;
  }
  if (!SendControl(control, answer).ok()) {
    KillProcess(worker.process);
  }
}

void Supervisor::AnswerRedeem(Worker& worker, const ControlMessage& message) {
  ControlMessage answer;
  answer.type = ControlType::kRedeemReply;
  answer.id = message.id;
  auto found = shared_.find({message.b, message.c});
  Status sent;
  if (found == shared_.end() || found->second.vgpu != worker.vgpu) {
    answer.SetText("nothing is shared under this handle in this vGPU");
    sent = SendControl(worker.process.control, answer);
  } else {
    SharedObject& object = found->second;
    ++object.holders[worker.process.control];
    answer.a = 1;
    answer.device = object.device;
    answer.b = object.bytes;
    sent = Tell(worker.process.control, answer, object.descriptor);
  }
  if (!sent.ok()) {
    KillProcess(worker.process);
  }
}

void Supervisor::DropHolder(const ShareToken& token, int control, bool all) {
  auto found = shared_.find(token);
  if (found == shared_.end()) {
    return;
  }
  auto holder = found->second.holders.find(control);
  if (holder == found->second.holders.end()) {
    return;
  }
  if (all || --holder->second == 0) {
    found->second.holders.erase(holder);
  }
  if (found->second.holders.empty()) {
    close(found->second.descriptor);
    shared_.erase(found);  // refunds
  }
}

}  // namespace farcall::server
