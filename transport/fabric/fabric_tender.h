// SPDX-License-Identifier: Apache-2.0
// Some fabrics move nothing by themselves, UCX for one: a message that was not sent at once, or a
// connection that is being set up, waits for somebody to call it. One thread of the process does so
// for channels that have such work while no thread of theirs is in them; while none has, it sleeps.
#pragma once

#include <atomic>
#include <vector>

#include "transport/sync.h"

namespace farcall {

class FabricTended {
 public:
  // Does what can be done without waiting. True: there will be more to do.
  virtual bool Tend() = 0;

 protected:
  ~FabricTended() = default;
};

//   Thread  any
class FabricTender {
 public:
  static FabricTender& OfProcess();

  void Add(FabricTended* tended);
  // When it returns, no call of Tend is under way, nor will one begin.
  void Remove(FabricTended* tended);
  // Somebody has such work.
  void Notice() {
    if (!has_work_.exchange(true)) WakeUp();
  }

 private:
  void WakeUp();
  void Run();

  std::atomic<bool> has_work_{false};
  Mutex mutex_;
  CondVar changed_;
  std::vector<FabricTended*> tended_;
  WorkerThread thread_;
};

}  // namespace farcall
