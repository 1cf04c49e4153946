// SPDX-License-Identifier: Apache-2.0
// Threads that find no credit: one at a time asks for more, on behalf of all that wait. Each by
// itself would take from the others what it gives back to the server, in order to have it granted
// in one piece.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>

#include "sync/cond_var.h"

namespace farcall::client {

//   Thread  any
class CreditQueue {
 public:
  // Calls `attempt` while no other caller's runs for the device.
  //   Returns  what it returned; or OUT_OF_MEMORY without calling it, if one for no more bytes was
  //            refused that began after this call: then there was too little for this one, too
  CUresult Run(int device, uint64_t bytes, const std::function<CUresult()>& attempt);
  // Callers whose attempt has not begun.
  size_t waiting(int device);

 private:
  struct Waiter {
    uint64_t bytes = 0;
    bool leads = false, refused = false;
    CondVar changed;
  };
  struct Line {
    bool busy = false;           // somebody's attempt runs, or is about to
    std::list<Waiter*> waiters;  // the longest first
  };
  static void Refuse(Line* line, size_t present, uint64_t bytes);
  static void HandOn(Line* line, bool is_short);

  std::mutex mutex_;  // all below
  std::map<int, Line> lines_;
};

}  // namespace farcall::client
