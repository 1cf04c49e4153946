// SPDX-License-Identifier: Apache-2.0
// Which context is current on this thread, so that the driver is asked only when it changes.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "generated/server/driver_api.h"

namespace farcall::server {

struct RememberedContext {
  CUcontext context = nullptr;
  uint64_t epoch = 0;  // 0: nothing is remembered
};

class CurrentContext {
 public:
  static void Set(const DriverApi& api, CUcontext context) {
    uint64_t epoch = epoch_.load(std::memory_order_acquire);
    if (context == here_.context && epoch == here_.epoch) return;
    api.cuCtxSetCurrent(context);
    here_ = {context, epoch};
  }
  // A context came or went, perhaps at the address of another: what every thread remembers is void.
  static void Forget() { epoch_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  static inline thread_local RememberedContext here_;
  static inline std::atomic<uint64_t> epoch_{1};
};

}  // namespace farcall::server
