// SPDX-License-Identifier: Apache-2.0
// Ends of closed channels from which the peer has still to read. A peer reads by itself, out of
// this side's memory, when a thread of it next looks; a program may close and go on long before
// that. As TCP does for a closed socket, one thread of the process keeps such ends for a while.
#pragma once

#include <deque>

#include "transport/fabric/fabric_channel.h"
#include "transport/sync.h"

namespace farcall {

//   Thread  any
class FabricLingerer {
 public:
  static constexpr auto kLimit = std::chrono::seconds(5);
  static constexpr size_t kMaxEnds = 64;  // then the oldest goes

  static FabricLingerer& OfProcess();

  // Keeps `end`, which nobody else uses, until the peer has read all or kLimit is over. Where no
  // thread can be had, it goes at once.
  void Keep(FabricEndPointer end);
  // Ends all. When it returns, none is left.
  void DropAll();
  size_t count();

 private:
  struct Kept {
    FabricEndPointer end;
    Clock::time_point until;
  };
  void Run();
  // Moves those that are done to `gone`.
  void Look(std::deque<Kept>* gone);

  Mutex mutex_;
  CondVar changed_;
  std::deque<Kept> kept_;
  size_t going_ = 0;  // being destroyed, by its thread
  WorkerThread thread_;
};

}  // namespace farcall
