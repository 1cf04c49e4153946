// SPDX-License-Identifier: Apache-2.0
// Who answers for the vGPU's memory quota: the supervisor, over the worker's control socket.
#pragma once

#include <cstdint>

#include "proto/status.h"
#include "quota/memory_ledger.h"

namespace farcall::server {

class MemoryBroker {
 public:
  virtual ~MemoryBroker() = default;
  // Reserves before the driver is asked.   Errors  kQuotaExceeded, kDisconnected.   Thread  any;
  // blocks for the answer
  virtual Status Charge(int device, uint64_t bytes) = 0;
  virtual void Refund(int device, uint64_t bytes) = 0;
  virtual quota::Usage Query(int device) = 0;
};

}  // namespace farcall::server
