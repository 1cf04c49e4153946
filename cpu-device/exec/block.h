// SPDX-License-Identifier: Apache-2.0
// A thread block in execution: its memory, its threads' coroutines and the scheduler that moves
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

// Memory that grows and never shrinks; contents are undefined after Reserve.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  ~ScratchMemory();
  // 128-byte aligned; nullptr if the system has no memory.
  uint8_t* Reserve(uint64_t bytes);

 private:
  uint8_t* data_ = nullptr;
  uint64_t capacity_ = 0;
};

// A block's shared memory. It ends at a page that is not there, and 4 GiB behind it are not either,
// so that compiled code need not check 32-bit offsets.
class SharedWindow {
 public:
  SharedWindow() = default;
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  ~SharedWindow();
  // Begin of a window of that many bytes, aligned to `align` and 128 bytes; nullptr if there is no
  // address space or `bytes` is too large.
  uint8_t* Place(uint64_t bytes, uint64_t align);

  static constexpr uint64_t kCapacity = 256 << 10;
  static constexpr uint64_t kReserved = (uint64_t{4} << 30) + kCapacity + (64 << 10);

 private:
  uint8_t* reserved_ = nullptr;
};

// What a block needs to know of its kernel.
struct BlockShape {
  CodeForm form = CodeForm::kLoop;
  LoopEntry loop = nullptr;  // one of the two
  CoroutineEntry coroutine = nullptr;
  uint32_t threads = 0;
  uint64_t shared_bytes = 0, shared_align = 1;
  uint64_t local_bytes = 0;  // per thread
};

enum class StepResult {
  kDone,
  kStalled,  // every thread that could run yielded: it waits for another block, or may do so
};

class Block {
 public:
  Block() = default;
  // Prepares to run block `ctaid` of `launch`. False: out of memory.
  bool Start(const BlockShape& shape, LaunchContext* launch, const uint32_t ctaid[3],
             uint32_t smid);
  // Runs threads until all are done, or none makes progress, or some of them have yielded many
  // times. Faults leave by RaiseFault.
  StepResult Step();
  // Runs the grid's next block, by x, y and z, in place of this one, which is done. Only where a
  // block is one call (BlockShape::loop), of a cluster of one.
  void RunNext();
  bool moved() const { return moved_; }  // whether any thread got on in the last Step
  // Its context, which compiled code reads.
  BlockContext* JoinCluster(ClusterContext* cluster, uint32_t rank, const uint32_t ctaid[3]);

  // A coroutine frame; called from compiled code.
  void* AllocateFrame(uint64_t bytes);
  static Block* From(BlockContext* context) { return reinterpret_cast<Block*>(context); }

 private:
  struct Barrier {
    uint32_t arrived = 0;   // threads
    uint32_t padding = 0;   // lanes counted without arriving: those a started warp lacks
    uint32_t expected = 0;  // 0: all live threads
    uint32_t warps = 0;     // with an arrival in this phase
    uint32_t true_count = 0;
    BarrierReduce reduce = BarrierReduce::kNone;
    uint32_t waiting[kMaxThreadsPerBlock / kWarpSize] = {};
  };
  struct Group {
    Wait wait;
    uint32_t mask, site, arrived;
  };
  struct Warp {
    uint32_t live = 0, ready = 0, yielded = 0, stepped = 0;
    uint32_t group_count = 0;
    Group groups[kWarpSize];
  };

  // Lanes of a warp that have suspended since it was last looked at, all for the same.
  struct Together {
    uint32_t at_barrier = 0, in_operation = 0;
    uint32_t mask = 0;         // of the operation
    Wait wait = Wait::kYield;  // it
  };

  void RunWarp(uint32_t warp);
  void StepOn(uint32_t warp);
  bool Joins(Together* together, uint32_t warp, uint32_t lane);
  void Deliver(Together* together, uint32_t warp);
  void Enter(Barrier* barrier, uint32_t warp);
  void ArriveTogether(uint32_t warp, uint32_t lanes);
  void OnSuspend(uint32_t warp, uint32_t lane);
  void OnExit(uint32_t warp, uint32_t lane);
  void ArriveAtBarrier(uint32_t warp, uint32_t lane, bool waits);
  void ReleaseIfComplete(Barrier& barrier);
  void JoinGroup(uint32_t warp, uint32_t lane);
  void Release(uint32_t warp, uint32_t group);
  bool ReleaseConverged(uint32_t warp);
  [[noreturn]] void RaiseDeadlock();

  BlockContext context_;  // first: compiled code holds a pointer to it
  BlockShape shape_;
  SharedWindow shared_;
  ScratchMemory local_;
  std::vector<ThreadContext> threads_;
  std::vector<std::unique_ptr<ScratchMemory>> frame_chunks_;
  std::vector<uint64_t> chunk_bytes_;
  size_t chunk_ = 0;
  uint8_t* frame_next_ = nullptr;
  uint8_t* frame_end_ = nullptr;
  uint32_t warp_count_ = 0, live_ = 0;
  bool progress_ = false, moved_ = false;
  Barrier barriers_[kBarrierCount];
  std::vector<Warp> warps_;
};

// Carries out a warp operation for the lanes in `lanes` (all suspended in it) and stores their
// results.
void RunWarpOperation(ThreadContext* warp, uint32_t lanes);

}  // namespace farcall::cpu_device
