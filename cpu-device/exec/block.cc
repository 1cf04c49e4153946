// SPDX-License-Identifier: Apache-2.0
// The scheduler of one block: warps round-robin, lanes of a warp in order, barriers and warp groups
// as they complete.
#include "cpu-device/exec/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "cpu-device/exec/cluster.h"
#include "cpu-device/exec/fault.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kFrameChunkBytes = 256 << 10;
constexpr uint32_t kMaxYields = 16;  // rounds with one, in one turn

uint32_t LowMask(uint32_t count) {
  return count >= 32 ? ~0u : (1u << count) - 1;
}

}  // namespace

ScratchMemory::~ScratchMemory() {
  if (data_) munmap(data_, capacity_);
}

uint8_t* ScratchMemory::Reserve(uint64_t bytes) {
  bytes = std::max<uint64_t>((bytes + 4095) & ~uint64_t{4095}, 4096);
  if (bytes <= capacity_) return data_;
  void* fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (data_) munmap(data_, capacity_);
  data_ = static_cast<uint8_t*>(fresh);
  capacity_ = bytes;
  return data_;
}

SharedWindow::~SharedWindow() {
  if (reserved_) munmap(reserved_, kReserved);
}

uint8_t* SharedWindow::Place(uint64_t bytes, uint64_t align) {
  const uint64_t mask = std::max<uint64_t>(align, 128) - 1;
  bytes = (bytes + mask) & ~mask;
  if (bytes > kCapacity) return nullptr;
  if (!reserved_) {
    void* at =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    if (mprotect(at, kCapacity, PROT_READ | PROT_WRITE) != 0) {
      munmap(at, kReserved);
      return nullptr;
    }
    reserved_ = static_cast<uint8_t*>(at);
  }
  return reserved_ + kCapacity - bytes;
}

bool Block::Start(const BlockShape& shape, LaunchContext* launch, const uint32_t ctaid[3],
                  uint32_t smid) {
  shape_ = shape;
  context_.launch = launch;
  context_.shared = shared_.Place(shape.shared_bytes, shape.shared_align);
  context_.shared_bytes = shape.shared_bytes;
  // The loop form reuses one thread's local memory for all: no thread outlives its turn.
  context_.local_threads = shape.form == CodeForm::kLoop ? 1 : shape.threads;
  context_.local = local_.Reserve(shape.local_bytes * context_.local_threads);
  context_.local_bytes = shape.local_bytes;
  std::copy(ctaid, ctaid + 3, context_.ctaid);
  context_.smid = smid;
  if (!context_.shared || !context_.local) return false;
  chunk_ = 0;
  frame_next_ = frame_end_ = nullptr;
  if (shape.loop) return true;

  warp_count_ = (shape.threads + kWarpSize - 1) / kWarpSize;
  live_ = shape.threads;
  threads_.resize(warp_count_ * kWarpSize);
  warps_.resize(warp_count_);
  const uint32_t* size = launch->block;
  uint32_t x = 0, y = 0, z = 0;
  for (uint32_t i = 0; i < shape.threads; ++i) {
    ThreadContext& t = threads_[i];
    t.tid[0] = x;
    t.tid[1] = y;
    t.tid[2] = z;
    t.linear = i;
    t.local = context_.local + i * shape.local_bytes;
    t.local_top = 0;
    t.cluster_phase = ~0u;
    t.frame = nullptr;
    if (++x == size[0]) {
      x = 0;
      if (++y == size[1]) {
        y = 0;
        ++z;
      }
    }
  }
  for (uint32_t w = 0; w < warp_count_; ++w) {
    Warp& warp = warps_[w];
    warp.live = warp.ready = LowMask(shape.threads - w * kWarpSize);
    warp.yielded = warp.stepped = warp.group_count = 0;
  }
  std::fill(std::begin(barriers_), std::end(barriers_), Barrier{});
  return true;
}

BlockContext* Block::JoinCluster(ClusterContext* cluster, uint32_t rank, const uint32_t ctaid[3]) {
  context_.cluster = cluster;
  context_.cluster_rank = rank;
  std::copy(ctaid, ctaid + 3, context_.cluster_ctaid);
  return &context_;
}

void* Block::AllocateFrame(uint64_t bytes) {
  bytes = (bytes + 63) & ~uint64_t{63};
  if (static_cast<uint64_t>(frame_end_ - frame_next_) < bytes) {
    if (chunk_ == frame_chunks_.size()) {
      frame_chunks_.push_back(std::make_unique<ScratchMemory>());
      chunk_bytes_.push_back(0);
    }
    // Room for the whole block's frames at once where that is known to be more.
    uint64_t wanted = std::max({kFrameChunkBytes, bytes, chunk_bytes_[chunk_]});
    uint8_t* memory = frame_chunks_[chunk_]->Reserve(wanted);
    if (!memory) RaiseFault(ExecStatus::kOutOfMemory, "no host memory for a thread's state");
    chunk_bytes_[chunk_] = wanted;
    ++chunk_;
    frame_next_ = memory;
    frame_end_ = memory + wanted;
  }
  void* frame = frame_next_;
  frame_next_ += bytes;
  return frame;
}

StepResult Block::Step() {
  SetSharedWindow(context_.shared, context_.shared_bytes);
  moved_ = shape_.loop != nullptr;
  if (shape_.loop) {
    shape_.loop(&context_);
    return StepResult::kDone;
  }
  for (uint32_t yields = 0; live_;) {
    progress_ = false;
    bool yielded = false;
    for (uint32_t w = 0; w < warp_count_; ++w) {
      Warp& warp = warps_[w];
      warp.ready |= warp.yielded;
      warp.yielded = 0;
      if (warp.ready) RunWarp(w);
      yielded |= warp.yielded != 0;
    }
    moved_ |= progress_;
    yields += yielded;
    // A loop around a barrier may wait for another block and be busy all the while.
    if (progress_ && yields < kMaxYields) continue;
    if (yielded) return StepResult::kStalled;
    if (progress_) continue;
    if (live_) RaiseDeadlock();
  }
  return StepResult::kDone;
}

void Block::RunNext() {
  const uint32_t* size = context_.launch->grid;
  uint32_t* at = context_.ctaid;
  if (++at[0] == size[0]) {
    at[0] = 0;
    if (++at[1] == size[1]) {
      at[1] = 0;
      ++at[2];
    }
  }
  shape_.loop(&context_);
}

void Block::RunWarp(uint32_t w) {
  Warp& warp = warps_[w];
  ThreadContext* base = &threads_[w * kWarpSize];
  do {
    Together together;
    while (warp.ready) {
      uint32_t lane = std::countr_zero(warp.ready);
      warp.ready &= warp.ready - 1;
      ThreadContext& t = base[lane];
      if (!t.frame)
        t.frame = shape_.coroutine(&context_, &t);
      else
        (*static_cast<ResumeFunction*>(t.frame))(t.frame);
      if (*static_cast<void**>(t.frame) == nullptr)
        OnExit(w, lane);
      else if (!Joins(&together, w, lane))
        OnSuspend(w, lane);
      if (!warp.ready && warp.stepped) StepOn(w);
      if (!warp.ready) Deliver(&together, w);
    }
  } while (ReleaseConverged(w));
}

// Of the lanes that step together those go on that have come least far.
void Block::StepOn(uint32_t w) {
  Warp& warp = warps_[w];
  const ThreadContext* base = &threads_[w * kWarpSize];
  uint32_t lowest = ~0u;
  for (uint32_t rest = warp.stepped; rest; rest &= rest - 1) {
    const uint32_t lane = std::countr_zero(rest);
    if (base[lane].b > lowest) continue;
    if (base[lane].b < lowest) warp.ready = 0;
    lowest = base[lane].b;
    warp.ready |= 1u << lane;
  }
  warp.stepped &= ~warp.ready;
}

// The usual ways to wait, taken for the lanes of a warp at once: at the block's own barrier, and at
// an operation of the whole warp.
bool Block::Joins(Together* together, uint32_t w, uint32_t lane) {
  const ThreadContext& t = threads_[w * kWarpSize + lane];
  if (t.wait == Wait::kBarrier) {
    if (t.a != 0 || t.b != 0 || t.c != 0) return false;
    together->at_barrier |= 1u << lane;
    return true;
  }
  const Warp& warp = warps_[w];
  if (t.wait < Wait::kWarpSync || t.wait == Wait::kLockstep || (warp.live & ~t.mask)) return false;
  if (together->in_operation == 0) {
    together->wait = t.wait;
    together->mask = t.mask;
  } else if (together->wait != t.wait || together->mask != t.mask) {
    return false;
  }
  together->in_operation |= 1u << lane;
  return true;
}

// All lanes have run that could. Those that did not come together are filed one by one.
void Block::Deliver(Together* together, uint32_t w) {
  Warp& warp = warps_[w];
  if (const uint32_t lanes = std::exchange(together->in_operation, 0)) {
    progress_ = true;
    if (lanes == warp.live && warp.group_count == 0) {
      RunWarpOperation(&threads_[w * kWarpSize], lanes);
      warp.ready = lanes;
    } else {
      for (uint32_t rest = lanes; rest; rest &= rest - 1) JoinGroup(w, std::countr_zero(rest));
    }
  }
  if (const uint32_t lanes = std::exchange(together->at_barrier, 0)) {
    progress_ = true;
    ArriveTogether(w, lanes);
  }
}

void Block::OnSuspend(uint32_t w, uint32_t lane) {
  ThreadContext& t = threads_[w * kWarpSize + lane];
  switch (t.wait) {
    case Wait::kYield:
      warps_[w].yielded |= 1u << lane;
      return;
    case Wait::kLockstep:
      warps_[w].stepped |= 1u << lane;
      return;
    case Wait::kBarrier:
      progress_ = true;
      ArriveAtBarrier(w, lane, true);
      return;
    case Wait::kBarrierArrive:
      progress_ = true;
      warps_[w].ready |= 1u << lane;
      ArriveAtBarrier(w, lane, false);
      return;
    default:
      progress_ = true;
      JoinGroup(w, lane);
  }
}

void Block::OnExit(uint32_t w, uint32_t lane) {
  Warp& warp = warps_[w];
  warp.live &= ~(1u << lane);
  --live_;
  progress_ = true;
  LeaveCluster(context_.cluster, threads_[w * kWarpSize + lane]);
  for (uint32_t g = 0; g < warp.group_count; ++g) {
    const Group& group = warp.groups[g];
    if (group.mask && group.arrived == (group.mask & warp.live)) {
      Release(w, g);
      --g;
    }
  }
  for (Barrier& barrier : barriers_) {
    if (!barrier.warps) continue;
    if (barrier.warps >> w & 1) ++barrier.padding;
    ReleaseIfComplete(barrier);
  }
}

void Block::ArriveAtBarrier(uint32_t w, uint32_t lane, bool waits) {
  ThreadContext& t = threads_[w * kWarpSize + lane];
  if (t.a >= kBarrierCount)
    RaiseFault(ExecStatus::kTrap, "barrier %u does not exist, a block has %u", t.a, kBarrierCount);
  Barrier& barrier = barriers_[t.a];
  Enter(&barrier, w);
  ++barrier.arrived;
  if (t.b) barrier.expected = t.b;
  if (waits) {
    barrier.waiting[w] |= 1u << lane;
    barrier.reduce = static_cast<BarrierReduce>(t.c);
    barrier.true_count += t.value != 0;
  }
  ReleaseIfComplete(barrier);
}

void Block::Enter(Barrier* barrier, uint32_t w) {
  if (barrier->warps >> w & 1) return;
  barrier->warps |= 1u << w;
  barrier->padding += kWarpSize - std::popcount(warps_[w].live);
}

// At barrier 0, all threads of the block expected.
void Block::ArriveTogether(uint32_t w, uint32_t lanes) {
  Barrier& barrier = barriers_[0];
  Enter(&barrier, w);
  barrier.arrived += std::popcount(lanes);
  barrier.waiting[w] |= lanes;
  barrier.reduce = BarrierReduce::kNone;
  ReleaseIfComplete(barrier);
}

void Block::ReleaseIfComplete(Barrier& barrier) {
  bool complete = barrier.expected ? barrier.arrived + barrier.padding >= barrier.expected
                                   : barrier.arrived >= live_;
  if (!complete) return;
  uint64_t result = 0;
  switch (barrier.reduce) {
    case BarrierReduce::kNone:
      break;
    case BarrierReduce::kAnd:
      result = barrier.true_count == barrier.arrived;
      break;
    case BarrierReduce::kOr:
      result = barrier.true_count != 0;
      break;
    case BarrierReduce::kPopc:
      result = barrier.true_count;
      break;
  }
  for (uint32_t w = 0; w < warp_count_; ++w) {
    uint32_t lanes = barrier.waiting[w];
    warps_[w].ready |= lanes;
    barrier.waiting[w] = 0;
    if (barrier.reduce == BarrierReduce::kNone) continue;
    for (; lanes; lanes &= lanes - 1)
      threads_[w * kWarpSize + std::countr_zero(lanes)].value = result;
  }
  barrier.arrived = barrier.padding = barrier.expected = barrier.warps = barrier.true_count = 0;
  barrier.reduce = BarrierReduce::kNone;
}

void Block::JoinGroup(uint32_t w, uint32_t lane) {
  ThreadContext& t = threads_[w * kWarpSize + lane];
  Warp& warp = warps_[w];
  // mask 0: whoever is converged; told apart by site.
  uint32_t site = t.mask ? 0 : t.b;
  uint32_t g = 0;
  while (g < warp.group_count && !(warp.groups[g].wait == t.wait && warp.groups[g].mask == t.mask &&
                                   warp.groups[g].site == site))
    ++g;
  if (g == warp.group_count) {
    if (t.mask && !(t.mask >> lane & 1)) {
      RaiseFault(ExecStatus::kTrap, "lane %u is not in the member mask 0x%08x it waits with", lane,
                 t.mask);
    }
    warp.groups[warp.group_count++] = {t.wait, t.mask, site, 0};
  }
  Group& group = warp.groups[g];
  group.arrived |= 1u << lane;
  if (group.mask && group.arrived == (group.mask & warp.live)) Release(w, g);
}

void Block::Release(uint32_t w, uint32_t g) {
  Warp& warp = warps_[w];
  uint32_t lanes = warp.groups[g].arrived;
  warp.groups[g] = warp.groups[--warp.group_count];
  RunWarpOperation(&threads_[w * kWarpSize], lanes);
  warp.ready |= lanes;
}

// Nobody of the warp can run on: those that wait for "whoever is here" are together now.
bool Block::ReleaseConverged(uint32_t w) {
  Warp& warp = warps_[w];
  for (uint32_t g = 0; g < warp.group_count; ++g) {
    if (warp.groups[g].mask == 0) {
      Release(w, g);
      return true;
    }
  }
  return warp.ready != 0;
}

void Block::RaiseDeadlock() {
  for (uint32_t w = 0; w < warp_count_; ++w) {
    if (!warps_[w].live) continue;
    const ThreadContext& t = threads_[w * kWarpSize + std::countr_zero(warps_[w].live)];
    const char* where = t.wait == Wait::kBarrier ? "barrier" : "warp operation";
    RaiseFault(
        ExecStatus::kTimeout,
        "deadlock in block (%u,%u,%u): thread (%u,%u,%u) waits at a %s that the others never "
        "reach",
        context_.ctaid[0], context_.ctaid[1], context_.ctaid[2], t.tid[0], t.tid[1], t.tid[2],
        where);
  }
  RaiseFault(ExecStatus::kTimeout, "deadlock");
}

}  // namespace farcall::cpu_device
