// SPDX-License-Identifier: Apache-2.0
// Warp operations of a block in loops over its threads: all threads are there, each warp does it.
#include "cpu-device/exec/block_warp_ops.h"

#include <bit>
#include <cstring>

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/fault.h"

namespace farcall::cpu_device {
namespace {

enum Operand { kValue, kB, kC, kPredicate, kMask };

uint64_t Read(const WarpOperand& operand, uint32_t thread) {
  uint64_t value = 0;
  memcpy(&value, operand.data + uint64_t{thread} * operand.step, operand.bytes);
  return value;
}

uint32_t LiveLanes(uint32_t threads, uint32_t first) {
  const uint32_t left = threads - first;
  return left >= kWarpSize ? ~0u : (1u << left) - 1;
}

bool IsShuffle(Wait wait) {
  return wait >= Wait::kShflUp && wait <= Wait::kShflIdx;
}

// All lanes take part and ask alike: where each one's value comes from is the same in all warps.
void ShuffleAlike(const BlockWarpOperation& operation, uint32_t threads) {
  ThreadContext lanes[kWarpSize];
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    lanes[i].wait = operation.wait;
    lanes[i].value = i + 1;
    lanes[i].b = static_cast<uint32_t>(Read(operation.operands[kB], 0));
    lanes[i].c = static_cast<uint32_t>(Read(operation.operands[kC], 0));
  }
  RunWarpOperation(lanes, ~0u);
  uint32_t source[kWarpSize];
  for (uint32_t i = 0; i < kWarpSize; ++i) source[i] = static_cast<uint32_t>(lanes[i].value) - 1;
  for (uint32_t first = 0; first < threads; first += kWarpSize) {
    uint32_t in[kWarpSize], out[kWarpSize];
    memcpy(in, operation.operands[kValue].data + first * 4, sizeof(in));
    const uint32_t live = StayingLanes(operation.left, threads, first);
    if (live == 0) continue;
    // Of threads that the block does not have.
    for (uint32_t rest = ~live; rest; rest &= rest - 1) in[std::countr_zero(rest)] = 0;
    for (uint32_t i = 0; i < kWarpSize; ++i) out[i] = in[source[i]];
    memcpy(operation.result + first * 4, out, sizeof(out));
  }
}

// As the scheduler of coroutines has it, of lanes that all have arrived.
void RunByMask(const BlockContext* block, ThreadContext* lanes, uint32_t live) {
  for (uint32_t left = live; left;) {
    const uint32_t lane = std::countr_zero(left);
    const bool any = lanes[lane].wait == Wait::kActivemask;
    const uint32_t mask = any ? live : lanes[lane].mask;
    uint32_t group = 0;
    for (uint32_t rest = left; rest; rest &= rest - 1) {
      const uint32_t other = std::countr_zero(rest);
      if (any || lanes[other].mask == mask) group |= 1u << other;
    }
    if (!(mask >> lane & 1)) {
      RaiseFault(ExecStatus::kTrap, "lane %u is not in the member mask 0x%08x it waits with", lane,
                 mask);
    }
    if (group != (mask & live)) {
      RaiseFault(ExecStatus::kTimeout,
                 "deadlock in block (%u,%u,%u): lane %u waits at a warp operation that the others "
                 "of its member mask 0x%08x never reach",
                 block->ctaid[0], block->ctaid[1], block->ctaid[2], lane, mask);
    }
    RunWarpOperation(lanes, group);
    left &= ~group;
  }
}

}  // namespace

uint32_t ThreadsOf(const BlockContext* block) {
  const uint32_t* size = block->launch->block;
  return size[0] * size[1] * size[2];
}

uint32_t StayingLanes(const uint8_t* left, uint32_t threads, uint32_t first) {
  uint32_t lanes = LiveLanes(threads, first);
  if (!left) return lanes;
  uint32_t gone = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) gone |= uint32_t{left[first + i]} << i;
  return lanes & ~gone;
}

void RunBlockWarpOperation(const BlockContext* block, const BlockWarpOperation& operation) {
  const WarpOperand* in = operation.operands;
  const uint32_t threads = ThreadsOf(block);
  const bool whole = in[kMask].step == 0 && static_cast<uint32_t>(Read(in[kMask], 0)) == ~0u;
  if (whole && IsShuffle(operation.wait) && in[kB].step == 0 && in[kC].step == 0 &&
      in[kValue].step == 4 && operation.result_bytes == 4)
    return ShuffleAlike(operation, threads);
  ThreadContext lanes[kWarpSize];
  for (uint32_t first = 0; first < threads; first += kWarpSize) {
    const uint32_t live = StayingLanes(operation.left, threads, first);
    if (live == 0) continue;
    for (uint32_t rest = live; rest; rest &= rest - 1) {
      const uint32_t lane = std::countr_zero(rest), thread = first + lane;
      ThreadContext& t = lanes[lane];
      t.wait = operation.wait;
      t.value = Read(in[kValue], thread);
      t.b = static_cast<uint32_t>(Read(in[kB], thread));
      t.c = static_cast<uint32_t>(Read(in[kC], thread));
      t.predicate = static_cast<uint32_t>(Read(in[kPredicate], thread));
      t.mask = static_cast<uint32_t>(Read(in[kMask], thread));
    }
    if (whole)
      RunWarpOperation(lanes, live);
    else
      RunByMask(block, lanes, live);
    for (uint32_t rest = live; rest; rest &= rest - 1) {
      const uint32_t lane = std::countr_zero(rest);
      const uint64_t predicate = lanes[lane].predicate != 0;
      const uint64_t result = static_cast<uint32_t>(lanes[lane].value) | predicate << 32;
      memcpy(operation.result + uint64_t{first + lane} * operation.result_bytes, &result,
             operation.result_bytes);
    }
  }
}

uint32_t ReducePredicates(const BlockContext* block, BarrierReduce how, const uint8_t* predicates,
                          uint32_t step, const uint8_t* left) {
  const uint32_t threads = ThreadsOf(block);
  // What every turn of a loop in step asks.
  if (how == BarrierReduce::kOr && step == 1) {
    uint8_t any = 0;
    if (left) {
      // Of a thread that has ended anything may stand there.
      for (uint32_t i = 0; i < threads; ++i)
        any |= static_cast<uint8_t>(predicates[i] & (left[i] - 1));
    } else {
      for (uint32_t i = 0; i < threads; ++i) any |= predicates[i];
    }
    return any;
  }
  uint32_t count = 0, live = 0;
  for (uint32_t i = 0; i < threads; ++i) {
    const uint32_t stays = left && left[i] ? 0 : 1;
    live += stays;
    count += predicates[uint64_t{i} * step] != 0 ? stays : 0;
  }
  if (how == BarrierReduce::kPopc) return count;
  return how == BarrierReduce::kAnd ? count == live : count != 0;
}

uint64_t StayingThreads(const BlockContext* block, const uint8_t* left) {
  uint32_t first = 0, end = ThreadsOf(block);
  while (first < end && left[first]) ++first;
  while (first < end && left[end - 1]) --end;
  return uint64_t{end} * (uint64_t{1} << 32) + first;
}

}  // namespace farcall::cpu_device
