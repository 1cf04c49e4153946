// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads hand values to each other through memory without a barrier.
#pragma once

#include <vector>

#include "cpu-device/jit/exchange/exchange_paths.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::jit {

// By instruction of an entry's body: the warp has to come together in front of it. Empty: nowhere,
// as nearly always.
//
// Volatile shared memory is how the threads of a warp once talked without a barrier, as if all made
// each step at once: the warp comes together in front of each access to it.
//
// Code that counts on a warp in lockstep with plain memory (undefined since compute capability 7.0,
// and right on GPUs all the same where no branch keeps the warp apart) is told by pairs of a store
// and a load of one array with no barrier between them, where
// - one thread's address is another one's of its warp, some places on (x[t] and x[t - 1]), or
// - addresses hang on the thread and on a value that a loop doubles or halves, as in sums and sorts
//   by trees (x[t + s], x[t & -s]), and the load comes after the store, or
// - all threads load one element of a row, and then store to the row, each to its own, or
// - in a loop the thread's place is stored to, and others' places are loaded (x[t] and x[t / 8]),
//   all in shared memory, with no barrier on the way back either, or
// - a thread stores to its place, and one, or each, then loads places of the whole warp, in a loop
//   or one after the other (x[t], then x[warp * 32 + i]), or
// - some threads of the warp store to a place in shared memory that the others then load, or
// - a function gets a pointer into shared memory, and stores what is loaded then, or the reverse.
// The warp then comes together in front of each access to that array.
//
// It does so too at the end of each loop around one of either kind.
class WarpExchange {
 public:
  WarpExchange() = default;
  explicit WarpExchange(const ptx::Function& entry);
  // In front of each access to memory that threads share: a warp in lockstep, whatever is told.
  static WarpExchange Everywhere(const ptx::Function& entry);

  // A load that may give what another thread of the warp has just stored, where nothing says
  // whether it does, in a kernel that steps nowhere. Null: there is none.
  const ptx::Instruction* doubt() const { return doubt_; }

  bool any() const { return !steps_.empty(); }
  // In front of instruction i of the entry's body.
  bool StepsAt(uint32_t i) const { return any() && steps_[i]; }
  // In front of a branch at `last` back to `first`.
  bool StepsAtLoop(uint32_t first, uint32_t last) const;

 private:
  void Mark(const ptx::Function& entry, uint32_t i);
  void MarkVolatile(const ptx::Function& entry);
  void MarkPlain(const ptx::Function& entry);

  std::vector<bool> steps_;
  const ptx::Instruction* doubt_ = nullptr;
};

}  // namespace farcall::cpu_device::jit
