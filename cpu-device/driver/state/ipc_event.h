// SPDX-License-Identifier: Apache-2.0
// Events that several processes share: two counters in a file of shared memory, one file a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

// How often the event was recorded, in any process, and which of these recordings was reached.
struct SharedCounts {
  std::atomic<uint64_t> recorded{0};
  std::atomic<uint64_t> reached{0};

  void Reach(uint64_t recording);
};

class SharedEvent {
 public:
  // A place in this process's file; nullptr: there is none.
  static std::shared_ptr<SharedEvent> Create();
  //   Errors  nullptr: no such file or place
  static std::shared_ptr<SharedEvent> Open(const CUipcEventHandle& handle);
  ~SharedEvent();

  CUipcEventHandle handle() const;
  uint64_t Record() { return counts_->recorded.fetch_add(1) + 1; }
  uint64_t recorded() const { return counts_->recorded.load(); }
  void Reach(uint64_t recording) { counts_->Reach(recording); }
  bool reached(uint64_t recording) const { return counts_->reached.load() >= recording; }
  // Returns also when the process that made the event has ended: it reaches nothing any more.
  void Wait(uint64_t recording) const;

 private:
  SharedEvent() = default;
  SharedCounts* counts_ = nullptr;
  uint32_t slot_ = 0;
  int32_t pid_ = 0;
  uint64_t nonce_ = 0;
  void* opened_ = nullptr;  // another process's file
};

}  // namespace farcall::cpu_device
