// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/shared_objects.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/handshake/crypto.h"

namespace farcall::server {

namespace {

ShareToken NewToken() {
  std::array<uint8_t, sizeof(ShareToken)> random;
  RandomBytes(random);
  ShareToken token;
  std::memcpy(&token.high, random.data(), 8);
  std::memcpy(&token.low, random.data() + 8, 8);
  return token;
}

}  // namespace

size_t SharedObjects::MaxPerVgpu() {
  constexpr rlim_t kLeast = 16, kMax = 16384, kPart = 8;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<size_t>(std::clamp<rlim_t>(limit.rlim_cur / kPart, kLeast, kMax));
}

SharedObjects::~SharedObjects() {
  for (const auto& [token, object] : objects_) close_(object.descriptor);
}

std::string SharedObjects::WhyNot(const std::string& vgpu, const quota::Charge* charge,
                                  const control::Share& message, int descriptor) const {
  auto own = by_vgpu_.find(vgpu);
  if (descriptor < 0) return "the server has no descriptor left to share memory with";
  const size_t most = max_per_vgpu_();
  if (own != by_vgpu_.end() && own->second >= most)
    return "a vGPU may share " + std::to_string(most) + " pieces of memory and events";
  if (objects_.size() >= kMaxVgpusFull * most) {
    return "the server's sessions share as many pieces of memory and events as it has descriptors "
           "for";
  }
  if (message.bytes > (charge == nullptr ? 0 : charge->bytes()))
    return "what is to be shared was not charged";
  return "";
}

control::ShareReply SharedObjects::Share(WorkerId worker, const std::string& vgpu,
                                         quota::Charge* charge, const control::Share& message,
                                         int* descriptor) {
  control::ShareReply answer{.id = message.id};
  const std::string why = WhyNot(vgpu, charge, message, *descriptor);
  if (!why.empty()) {
    answer.why = why;
    return answer;
  }
  answer.is_shared = true;
  answer.token = NewToken();
  Object& object = objects_[answer.token];
  object.vgpu = vgpu;
  object.device = message.device;
  object.descriptor = std::exchange(*descriptor, -1);
  object.charge = charge == nullptr ? quota::Charge() : charge->Split(message.bytes);
  object.bytes = message.bytes;
  object.holders[worker] = 1;
  ++by_vgpu_[vgpu];
  return answer;
}

control::RedeemReply SharedObjects::Redeem(WorkerId worker, const std::string& vgpu,
                                           const control::Redeem& message, int* descriptor) {
  control::RedeemReply answer{.id = message.id};
  *descriptor = -1;
  auto found = objects_.find(message.token);
  if (found == objects_.end() || found->second.vgpu != vgpu) {
    answer.why = "nothing is shared under this handle in this vGPU";
    return answer;
  }
  Object& object = found->second;
  ++object.holders[worker];
  answer.is_there = true;
  answer.device = object.device;
  answer.bytes = object.bytes;
  *descriptor = object.descriptor;
  return answer;
}

void SharedObjects::Leave(WorkerId worker) {
  for (auto at = objects_.begin(); at != objects_.end();) {
    const ShareToken token = (at++)->first;
    DropHolder(worker, token, true);
  }
}

uint64_t SharedObjects::BytesHeldBy(WorkerId worker, int device) const {
  uint64_t bytes = 0;
  for (const auto& [token, object] : objects_)
    bytes += object.device == device && object.holders.count(worker) != 0 ? object.bytes : 0;
  return bytes;
}

void SharedObjects::DropHolder(WorkerId worker, const ShareToken& token, bool all) {
  auto found = objects_.find(token);
  if (found == objects_.end()) return;
  auto holder = found->second.holders.find(worker);
  if (holder == found->second.holders.end()) return;
  if (all || --holder->second == 0) found->second.holders.erase(holder);
  if (found->second.holders.empty()) {
    close_(found->second.descriptor);
    if (auto own = by_vgpu_.find(found->second.vgpu); --own->second == 0) by_vgpu_.erase(own);
    objects_.erase(found);  // refunds
  }
}

}  // namespace farcall::server
