// SPDX-License-Identifier: Apache-2.0
// What compiled kernels and the scheduler share. Field order is an ABI: cpu-device/jit reads it by
// offsetof, and kCodegenVersion changes with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "cpu-device/exec/known_range.h"

namespace farcall::cpu_device {

inline constexpr uint32_t kCodegenVersion = 41;
inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kMaxThreadsPerBlock = 1024;
inline constexpr uint32_t kBarrierCount = 16;
inline constexpr uint32_t kSmCount = 8;
inline constexpr uint32_t kGridWorkspaceBytes = 64;
inline constexpr uint32_t kMaxClusterBlocks = 16;

class ChildGrids;

// One grid.
struct LaunchContext {
  const uint8_t* params = nullptr;
  const uint64_t* globals = nullptr;  // address of each module-scope variable, by Variable::index
  uint64_t window_begin = 0;          // device memory: [begin, begin + size) needs no slow check
  uint64_t window_size = 0;
  uint64_t grid_id = 0;
  uint64_t grid_workspace =
      0;  // grid barrier's counters: %envreg1 is the high word, %envreg2 the low
  std::atomic<uint32_t> cancel{0};  // polled at back edges
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;
  uint32_t total_shared = 0;
  uint32_t cluster[3] = {1, 1, 1};  // blocks of a cluster
  uint32_t explicit_cluster = 0;    // the launch or the kernel gave that shape
  // Not read by compiled code.
  uint64_t param_bytes = 0;
  const char* kernel_name = "";
  ChildGrids* children = nullptr;
  const std::function<void()>* on_wait = nullptr;  // as Kernel::Run has it
};

struct ClusterContext;

// One thread block in execution.
struct BlockContext {
  LaunchContext* launch = nullptr;
  uint8_t* shared = nullptr;
  uint64_t shared_bytes = 0;
  uint8_t* local = nullptr;  // local memory of all threads
  uint64_t local_bytes = 0;  // per thread
  uint32_t ctaid[3] = {0, 0, 0};
  uint32_t smid = 0;
  uint32_t cluster_rank = 0;
  uint32_t cluster_ctaid[3] = {0, 0, 0};
  // Not read by compiled code.
  uint32_t local_threads = 0;  // how many threads' local memory there is
  ClusterContext* cluster = nullptr;
  KnownRange known[4];  // what its loops went through last, of this block and those before it
  uint32_t next_known = 0;
};

// The blocks that run together on one host thread, and where their common barrier stands.
struct ClusterContext {
  BlockContext* blocks[kMaxClusterBlocks] = {};  // by rank
  uint32_t count = 0;
  uint32_t live = 0;     // threads
  uint32_t arrived = 0;  // of them, in this phase
  uint32_t phase = 0;
};

// Why a coroutine suspended. Warp operations are carried out by the scheduler when the lanes are
// together.
enum class Wait : uint32_t {
  kYield,
  kBarrier,        // a: barrier, b: expected threads or 0, value: predicate (red), c: BarrierReduce
  kBarrierArrive,  // a, b
  kActivemask,     // converged lanes, by site (b)
  kWarpSync,       // from here on: by member mask
  kShflUp,
  kShflDown,
  kShflBfly,
  kShflIdx,  // value, b: lane operand, c: clamp operand
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduxAdd,
  kReduxMinS,
  kReduxMaxS,
  kReduxMinU,
  kReduxMaxU,
  kReduxAnd,
  kReduxOr,
  kReduxXor,
  kReduxMinF,
  kReduxMaxF,  // c: bit 0 abs, bit 1 NaN
  kElect,
  kMma,  // value: address of the lane's MatrixWords, b and c: MatrixForm, packed
  // until the warp's other threads have come as far, or to another wait; no mask. b: of several
  // such places the lowest goes on first
  kLockstep,
};
enum class BarrierReduce : uint32_t { kNone, kAnd, kOr, kPopc };

// One thread. The loop form keeps it on its stack; the coroutine form has an array per block.
struct ThreadContext {
  uint32_t tid[3] = {0, 0, 0};
  uint32_t linear = 0;
  uint8_t* local = nullptr;  // this thread's local memory
  uint64_t local_top = 0;    // stack of alloca and recursive functions: offset into local
  void* frame = nullptr;  // coroutine handle; its first word is the resume function, null when done
  Wait wait = Wait::kYield;
  uint32_t mask = 0;
  uint32_t a = 0, b = 0, c = 0;
  uint32_t predicate = 0;        // in: vote's operand; out: shfl's, match's, elect's
  uint64_t value = 0;            // in: operand; out: result
  uint32_t cluster_phase = ~0u;  // of the cluster's barrier, when this thread arrived last
};

// An operand of a warp operation that all threads of a block carry out: of thread i it lies at
// data + i * step.
struct WarpOperand {
  const uint8_t* data = nullptr;
  uint32_t bytes = 0;  // 1, 2, 4 or 8
  uint32_t step = 0;   // 0: all have the same
};
struct BlockWarpOperation {
  Wait wait = Wait::kWarpSync;
  uint32_t result_bytes = 4;  // of each thread: the value, or in 8 the predicate above it
  uint8_t* result = nullptr;
  const uint8_t* left = nullptr;  // by thread: it has ended; null: none has
  WarpOperand operands[5];        // value, b, c, predicate, mask of ThreadContext
};

// What a kernel's code is entered as.
enum class CodeForm : uint32_t {
  kLoop,       // runs a block, its threads one after the other
  kCoroutine,  // runs a thread up to where it waits
  kRegions,    // runs a block, all its threads from one synchronisation point to the next
};

using LoopEntry = void (*)(BlockContext*);
using CoroutineEntry = void* (*)(BlockContext*, ThreadContext*);
using ResumeFunction = void (*)(void* frame);

}  // namespace farcall::cpu_device
