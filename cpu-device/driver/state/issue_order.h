// SPDX-License-Identifier: Apache-2.0
// Kernels and memsets of a context's streams begin as they were issued, one after the other.
//
// CUDA leaves open whether kernels of different streams overlap. On a GPU those that fill it do
// not, and short ones have ended before the next is issued; software counts on it (cuBLAS shares
// counters between calls on several streams of one handle). Here a kernel may take a thousand times
// as long: overlapping, they would meet in ways that they never do there. All processors work on
// one grid at a time anyway.
//
// One that waits for others - none of its blocks has ended for a while, and some look for what
// another has to write - lets them begin; so does one that takes seconds, which may wait in a way
// that does not show.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "sync/cond_var.h"

namespace farcall::cpu_device {

// Of one context.   Thread  any
class IssueOrder {
 public:
  // A piece of work is issued.
  //   behind  the one issued before it in its stream, 0 if there is none
  //   comes   nothing but such work, and what ends by itself, is before it in its stream
  //   Returns its number
  uint64_t Issue(uint64_t behind, bool comes);
  // Returns when it is its turn.
  void Begin(uint64_t number);
  // It waits for others: the next may begin beside it.
  void Yield(uint64_t number);
  void End(uint64_t number);

 private:
  enum class State { kIssued, kReady, kBegun, kWaits };
  struct Piece {
    State state = State::kIssued;
    uint64_t behind = 0;
    bool comes = false;
  };

  void WaitForTurn(std::unique_lock<std::mutex>& lock, uint64_t number);
  void LetOthersBegin(uint64_t number);
  bool MayBegin(uint64_t number) const;
  bool Comes(const Piece& piece) const;

  std::mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Piece> pieces_;             // issued and not ended
  uint64_t begun_ = 0;                           // of them, that others wait for; 0: none
  std::chrono::steady_clock::time_point since_;  // one began, ended or let others begin
  uint64_t next_ = 1;
};

}  // namespace farcall::cpu_device
