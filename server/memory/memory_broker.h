// SPDX-License-Identifier: Apache-2.0
// Who answers for the vGPU's memory quota: the supervisor, over the worker's control socket.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/status.h"
#include "proto/wire.h"
#include "quota/memory/memory_ledger.h"
#include "server/memory/use_meter.h"

namespace farcall::server {

struct Shared {
  int descriptor = -1;
  int device = 0;
  uint64_t bytes = 0;
};

// What a process of the vGPU holds on a device.
struct ProcessUse {
  uint32_t pid = 0;  // as the process's own host counts
  uint64_t bytes = 0;
};

class MemoryBroker {
 public:
  virtual ~MemoryBroker() = default;
  // Reserves before the driver is asked.   Errors  kQuotaExceeded, kDisconnected.   Thread  any;
  // blocks for the answer
  virtual Status Charge(int device, uint64_t bytes) = 0;
  virtual void Refund(int device, uint64_t bytes) = 0;
  virtual quota::Usage Query(int device) = 0;

  // Puts a descriptor where the sessions of this vGPU can fetch it. `bytes` of what this worker has
  // charged on `device` belong to it from now on: refunded when its last holder has let it go.
  //   Errors  kUnavailable, kDisconnected.   Thread  any; blocks for the answer
  virtual Status Share(int descriptor, int device, uint64_t bytes, ShareToken* token);
  // What a token of this vGPU names; the descriptor is the caller's to close, and the caller holds
  // it as its maker does.
  //   Errors  kUnavailable (no such token here), kDisconnected
  virtual Status Redeem(const ShareToken& token, Shared* shared);
  virtual void DropShared(const ShareToken& token);
  // The processes of the vGPU that hold some of the device's memory and run on this one's host.
  virtual std::vector<ProcessUse> Processes(int device) { return {}; }
  // Threads that wait in Charge: what they do goes on when there is room.   Thread  any
  virtual int waiting_charges() const { return 0; }
  // The device refused what was charged. True: others have made room by the next charge's answer.
  virtual bool NoteDeviceFull(int device, uint64_t bytes) { return false; }
  UseMeter& use() { return use_; }

 private:
  UseMeter use_;
};

inline Status MemoryBroker::Share(int, int, uint64_t, ShareToken*) {
  return {Code::kUnavailable, "this server shares nothing"};
}
inline Status MemoryBroker::Redeem(const ShareToken&, Shared*) {
  return {Code::kUnavailable, "this server shares nothing"};
}
inline void MemoryBroker::DropShared(const ShareToken&) {}

}  // namespace farcall::server
