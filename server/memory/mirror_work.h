// SPDX-License-Identifier: Apache-2.0
// Whether the device may have written mirrored memory since the client was last told: work that was
// put on a stream and has not been seen complete and looked at.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace farcall::server {

//   Thread  any
class MirrorWork {
 public:
  // `order`: of Completion, before the work; a later watch of the stream covers it.
  void Submitted(uint64_t stream_key, uint64_t order) {
    std::lock_guard lock(mutex_);
    pending_[stream_key] = order;
  }
  // What was put on the stream before the watch of that order has completed.
  void Reached(uint64_t stream_key, uint64_t order) {
    std::lock_guard lock(mutex_);
    auto found = pending_.find(stream_key);
    if (found != pending_.end() && found->second < order) {
      pending_.erase(found);
      unseen_ = true;
    }
  }
  // Whether to look now. Work under way counts: another stream may have waited for a part of it.
  bool Take() {
    std::lock_guard lock(mutex_);
    bool any = unseen_ || !pending_.empty();
    unseen_ = false;
    return any;
  }
  // The look did not reach the end.
  void PutBack() {
    std::lock_guard lock(mutex_);
    unseen_ = true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> pending_;
  bool unseen_ = false;
};

}  // namespace farcall::server
