// SPDX-License-Identifier: Apache-2.0
// What the sessions of one vGPU share: descriptors under tokens, each with its charge and holders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "proto/wire.h"
#include "quota/memory/memory_ledger.h"
#include "server/control/share.h"

namespace farcall::server {

// An object is charged to nobody's session, so that it outlives its maker as long as another holds
// it.
class SharedObjects {
 public:
  using WorkerId = int;  // its control descriptor

  // `close`: of a descriptor that nobody holds any more. `max_per_vgpu`: how many objects a vGPU
  // may have now; all of them together, kMaxVgpusFull times that.
  SharedObjects(std::function<void(int fd)> close, std::function<size_t()> max_per_vgpu)
      : close_(std::move(close)), max_per_vgpu_(std::move(max_per_vgpu)) {}
  SharedObjects(const SharedObjects&) = delete;
  ~SharedObjects();

  // Each object holds a descriptor of ours. Half of those that the process may have are for
  // sharing, and a vGPU has a quarter of them at most; the rest is for sessions and for clients
  // that come.
  static size_t MaxPerVgpu();

  // Takes the descriptor if the answer says that it is shared. `charge`: what the worker is charged
  // on the object's device; its part of it becomes the object's.
  control::ShareReply Share(WorkerId worker, const std::string& vgpu, quota::Charge* charge,
                            const control::Share& message, int* descriptor);
  // `*descriptor`: what goes with the answer; -1: nothing.
  control::RedeemReply Redeem(WorkerId worker, const std::string& vgpu,
                              const control::Redeem& message, int* descriptor);
  void Drop(WorkerId worker, const ShareToken& token) { DropHolder(worker, token, false); }
  // It holds nothing any more.
  void Leave(WorkerId worker);

  // Of the objects that the worker holds on the device: each counts for each that has it.
  uint64_t BytesHeldBy(WorkerId worker, int device) const;
  size_t size() const { return objects_.size(); }

 private:
  static constexpr size_t kMaxVgpusFull = 4;
  struct Object {
    std::string vgpu;
    int device = 0;
    int descriptor = -1;
    uint64_t bytes = 0;
    quota::Charge charge;
    std::map<WorkerId, uint32_t> holders;  // how often
  };

  std::string WhyNot(const std::string& vgpu, const quota::Charge* charge,
                     const control::Share& message, int descriptor) const;
  void DropHolder(WorkerId worker, const ShareToken& token, bool all);

  const std::function<void(int)> close_;
  const std::function<size_t()> max_per_vgpu_;
  std::map<ShareToken, Object> objects_;
  std::map<std::string, size_t> by_vgpu_;  // how many of them are a vGPU's
};

}  // namespace farcall::server
