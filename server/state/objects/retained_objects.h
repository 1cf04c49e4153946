// SPDX-License-Identifier: Apache-2.0
// What outlives its handle: other threads may still be looking at it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "proto/wire.h"

namespace farcall::server {

//   Thread  any
class RetainedObjects {
 public:
  static constexpr size_t kMaxReplaced = 4096;

  RetainedObjects() = default;
  RetainedObjects(const RetainedObjects&) = delete;
  ~RetainedObjects() { DeleteAll(); }

  // Memory that lives as long as the session: sources of captured copies.
  std::byte* KeepBytes(std::span<const std::byte> bytes);
  void Keep(std::shared_ptr<void> object);

  // What a handle table had beside the native object; it goes with the session.
  void Retire(HandleKind kind, void* extra);
  // The same of a handle that another life has taken: it goes with DeleteReplaced, once neither the
  // log nor a slow call can be looking at it.
  void RetireReplaced(HandleKind kind, void* extra);
  bool has_replaced() const { return replaced_count_.load() != 0; }
  // No more is replaced until those have gone.
  bool full() const { return replaced_count_.load() >= kMaxReplaced; }
  void DeleteReplaced();
  void DeleteAll();

 private:
  using Extra = std::pair<HandleKind, void*>;

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  std::vector<std::shared_ptr<void>> kept_objects_;
  std::vector<Extra> retired_;
  std::vector<Extra> replaced_;
  std::atomic<size_t> replaced_count_{0};
};

}  // namespace farcall::server
