// SPDX-License-Identifier: Apache-2.0
// What the sessions of one vGPU share: descriptors under tokens, each with its charge and holders.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/handshake.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr size_t kMostVgpusFull = 4;

// Each thing shared holds a descriptor of ours. Half of those that the process may have are for
// sharing, and a vGPU has a quarter of them at most; the rest is for sessions and for clients that
// come.
size_t MaxSharedPerVgpu() {
  constexpr rlim_t kLeast = 16, kMost = 16384, kPart = 8;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<size_t>(std::clamp<rlim_t>(limit.rlim_cur / kPart, kLeast, kMost));
}

ShareToken NewToken() {
  std::array<uint8_t, sizeof(ShareToken)> random;
  RandomBytes(random);
  ShareToken token;
  std::memcpy(&token.high, random.data(), 8);
  std::memcpy(&token.low, random.data() + 8, 8);
  return token;
}

}  // namespace

void Supervisor::Hear(Worker& worker, const control::Share& message, int* descriptor) {
  control::ShareReply answer{.id = message.id};
  int control = worker.process.control;
  const size_t most = MaxSharedPerVgpu();
  if (*descriptor < 0) {
    answer.why = "the server has no descriptor left to share memory with";
  } else if (auto own = shared_by_.find(worker.vgpu);
             own != shared_by_.end() && own->second >= most) {
    answer.why = "a vGPU may share " + std::to_string(most) + " pieces of memory and events";
  } else if (shared_.size() >= kMostVgpusFull * most) {
    answer.why =
        "the server's sessions share as many pieces of memory and events as it has descriptors for";
  } else if (auto charge = worker.charges.find(message.device);
             message.bytes > (charge == worker.charges.end() ? 0 : charge->second.bytes())) {
    answer.why = "what is to be shared was not charged";
  } else {
    ShareToken token = NewToken();
    SharedObject& object = shared_[token];
    object.vgpu = worker.vgpu;
    object.device = message.device;
    object.descriptor = std::exchange(*descriptor, -1);
    object.charge = worker.charges[message.device].Split(message.bytes);
    object.bytes = message.bytes;
    object.holders[control] = 1;
    ++shared_by_[worker.vgpu];
    answer.is_shared = true;
    answer.token = token;
  }
  (void)Tell(control, answer);
}

void Supervisor::Hear(Worker& worker, const control::Redeem& message) {
  control::RedeemReply answer{.id = message.id};
  auto found = shared_.find(message.token);
  if (found == shared_.end() || found->second.vgpu != worker.vgpu) {
    answer.why = "nothing is shared under this handle in this vGPU";
    (void)Tell(worker.process.control, answer);
  } else {
    SharedObject& object = found->second;
    ++object.holders[worker.process.control];
    answer.is_there = true;
    answer.device = object.device;
    answer.bytes = object.bytes;
    (void)Tell(worker.process.control, answer, object.descriptor);
  }
}

void Supervisor::Hear(Worker& worker, const control::Drop& message) {
  DropHolder(message.token, worker.process.control, false);
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
    closer_.Close(found->second.descriptor);
    if (auto own = shared_by_.find(found->second.vgpu); --own->second == 0) {
      shared_by_.erase(own);
    }
    shared_.erase(found);  // refunds
  }
}

}  // namespace farcall::server
