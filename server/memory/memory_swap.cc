// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memory_swap.h"

#include <algorithm>
#include <string>
#include <utility>

namespace farcall::server {

namespace {

using control::SwapOutcome;
using quota::Ns;

// A program that pauses this long is said to be idle; one that works is never asked more often.
constexpr Ns kQuiet = 10 * quota::kMillisecond;
// How long work that does not end is waited for before memory is refused. What it waits for may be
// a record that waits here; behind none, only a kernel that waits for the program can need longer.
constexpr Ns kSplitPatience = 30 * quota::kSecond, kBlockedPatience = 2 * quota::kSecond;

}  // namespace

void MemorySwap::TellDone(SwapOutcome outcome, Ns took, uint64_t moved_bytes) {
  hooks_.tell(control::SwapDone{
      .outcome = outcome, .took_ns = static_cast<uint64_t>(took), .moved_bytes = moved_bytes});
}

void MemorySwap::TellMoved(DeviceMemory& memory) {
  for (int device = 0; device < devices_; ++device)
    hooks_.tell(control::Moved{.device = device, .out_bytes = memory.out_bytes(device)});
}

bool MemorySwap::Admit() {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kIn) {
    if (!swaps_) return true;
    touched_ = true;
    asked_ = false;
    if (std::exchange(notified_idle_, false)) hooks_.tell(control::Idle{.is_idle = false});
    return true;
  }
  if (state == State::kOut && !std::exchange(asked_, true)) hooks_.tell(control::WantIn{});
  NoteBlocked(state);
  return false;
}

bool MemorySwap::AdmitReturn() {
  State state = state_.load(std::memory_order_acquire);
  NoteBlocked(state);
  return state == State::kIn || state == State::kOut;
}

void MemorySwap::NoteBlocked(State state) {
  if (state == State::kDraining && blocked_at_.load() == kNever) blocked_at_.store(hooks_.now());
}

Ns MemorySwap::DrainEnd() const {
  const Ns blocked_at = blocked_at_.load();
  const bool shortens = drains_to_split_ && blocked_at != kNever;
  return shortens ? std::min(drain_until_, blocked_at + kBlockedPatience) : drain_until_;
}

void MemorySwap::EndDrain() {
  fencing_ = false;
  drain_until_ = 0;
  blocked_at_.store(kNever);
}

void MemorySwap::NoteReturn(SwapGround& ground) {
  if (state_.load(std::memory_order_acquire) == State::kOut) TellMoved(ground.SwappedMemory());
}

void MemorySwap::Fence(SwapGround& ground) {
  fencing_ = true;
  uint64_t fence = ++fence_;
  ground.FenceAll([this, fence] {
    // Of an earlier fence another thread may tell later.
    uint64_t reached = reached_.load(std::memory_order_relaxed);
    while (reached < fence &&
           !reached_.compare_exchange_weak(reached, fence, std::memory_order_release)) {
    }
    hooks_.wake();
  });
}

void MemorySwap::Serve(SwapGround& ground) {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kIn && swaps_)
    WatchIdle(ground);
  else if (state == State::kDraining)
    Drain(ground);
}

// A pause of the program's is no idleness while its work runs.
void MemorySwap::WatchIdle(SwapGround& ground) {
  Ns now = hooks_.now();
  if (std::exchange(touched_, false)) {
    quiet_since_ = now;
    fencing_ = false;
    return;
  }
  if (fencing_) {
    if (reached_.load(std::memory_order_acquire) == fence_) {
      fencing_ = false;
      notified_idle_ = ground.Quiet();
      quiet_since_ = now;
      if (notified_idle_) hooks_.tell(control::Idle{.is_idle = true});
    }
    return;
  }
  if (notified_idle_) return;
  if (!ground.Quiet())
    quiet_since_ = now;
  else if (now - quiet_since_ >= kQuiet)
    Fence(ground);
}

void MemorySwap::Drain(SwapGround& ground) {
  if (drain_until_ == 0) {
    std::lock_guard lock(mutex_);
    drain_until_ = hooks_.now() + patience_ns_;
    drains_to_split_ = splits();
    fencing_ = false;
  }
  if (!fencing_) Fence(ground);
  if (reached_.load(std::memory_order_acquire) == fence_ && ground.Quiet()) {
    EndDrain();
    contexts_ = ground.Contexts();
    memory_ = &ground.SwappedMemory();
    std::lock_guard lock(mutex_);
    if (splits()) {
      state_.store(State::kSplitting, std::memory_order_release);
      mover_.Submit([this, device = splitting_->device] { SplitNow(*memory_, device); });
      return;
    }
    state_.store(State::kMovingOut, std::memory_order_release);
    mover_.Submit([this] { MoveOut(*memory_); });
  } else if (hooks_.now() >= DrainEnd()) {
    EndDrain();
    touched_ = true;
    std::unique_lock lock(mutex_);
    if (splits()) {
      lock.unlock();
      return EndSplit(false);
    }
    lock.unlock();
    state_.store(State::kIn, std::memory_order_release);
    TellDone(SwapOutcome::kStayed, 0, 0);
    hooks_.wake();
  }
}

bool MemorySwap::Split(int device) {
  std::unique_lock lock(mutex_);
  if (state_.load(std::memory_order_acquire) != State::kIn || splitting_ || stopped_)
    return false;  // what it asked for was refused while it was moving: it may ask again
  splitting_ = Splitting{device};
  patience_ns_ = kSplitPatience;
  waiting_splits_.fetch_add(1);
  state_.store(State::kDraining, std::memory_order_release);
  lock.unlock();
  hooks_.wake();
  lock.lock();
  split_over_.wait(lock, [this] { return splitting_->is_over; });
  waiting_splits_.fetch_sub(1);
  bool gained = splitting_->gained;
  splitting_.reset();
  return gained;
}

void MemorySwap::Stop() {
  mover_.Stop();
  std::lock_guard lock(mutex_);
  stopped_ = true;
  if (splits()) {
    splitting_->is_over = true;
    split_over_.notify_all();
  }
}

void MemorySwap::EndSplit(bool gained) {
  std::optional<control::SwapOut> out;
  {
    std::lock_guard lock(mutex_);
    if (!splits()) return;  // stopped
    splitting_->is_over = true;
    splitting_->gained = gained;
    out = std::exchange(asked_out_, {});
    state_.store(State::kIn, std::memory_order_release);
  }
  split_over_.notify_all();
  if (out) OnMessage(*out);
  hooks_.wake();
}

void MemorySwap::SplitNow(DeviceMemory& memory, int device) {
  auto context = contexts_.find(device);
  DeviceMemory::Moved moved;
  if (context != contexts_.end()) {
    moved = memory.SplitChunks(device, context->second, slabs_);
    slabs_.Trim();
  }
  if (moved.result != CUDA_SUCCESS) {
    hooks_.end({Code::kInternal, "its memory could not be put back: the device answers code " +
                                     std::to_string(moved.result)});
  }
  EndSplit(moved.bytes != 0);
}

void MemorySwap::MoveOut(DeviceMemory& memory) {
  Ns begin = hooks_.now();
  DeviceMemory::Moved moved = memory.MoveOut(contexts_, slabs_);
  bool stayed = moved.bytes == 0 && moved.result != CUDA_SUCCESS;
  if (stayed) slabs_.Trim();
  TellMoved(memory);
  auto outcome = stayed ? SwapOutcome::kStayed : SwapOutcome::kOut;
  state_.store(stayed ? State::kIn : State::kOut, std::memory_order_release);
  TellDone(outcome, hooks_.now() - begin, moved.bytes);
  hooks_.wake();
}

void MemorySwap::MoveIn(DeviceMemory& memory, bool keep) {
  Ns begin = hooks_.now();
  DeviceMemory::Moved moved = memory.MoveIn(contexts_, slabs_);
  bool is_in = moved.result == CUDA_SUCCESS;
  if (is_in && !keep) slabs_.Trim();
  TellMoved(memory);
  if (!is_in && moved.result != CUDA_ERROR_OUT_OF_MEMORY) {  // nothing will work for it any more
    hooks_.end({Code::kInternal, "its memory could not be put back: the device answers code " +
                                     std::to_string(moved.result)});
  }
  auto outcome = is_in ? SwapOutcome::kIn : SwapOutcome::kNoRoom;
  state_.store(is_in ? State::kIn : State::kOut, std::memory_order_release);
  TellDone(outcome, hooks_.now() - begin, moved.bytes);
  hooks_.wake();
}

void MemorySwap::OnMessage(const control::SwapOut& message) {
  std::lock_guard lock(mutex_);
  if (splits()) {
    asked_out_ = message;
  } else if (state_.load(std::memory_order_acquire) == State::kIn) {
    patience_ns_ = static_cast<Ns>(std::min<uint64_t>(message.patience_ns, INT64_MAX / 4));
    state_.store(State::kDraining, std::memory_order_release);
    hooks_.wake();
  }
}

void MemorySwap::OnMessage(const control::SwapIn& message) {
  std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_acquire) == State::kOut) {
    state_.store(State::kMovingIn, std::memory_order_release);
    mover_.Submit([this, keep = message.keeps_host_memory] { MoveIn(*memory_, keep); });
  }
}

Ns MemorySwap::ServeAt() const {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kDraining) return DrainEnd();  // 0: at once
  return state == State::kIn && swaps_ && !notified_idle_ && !fencing_ ? quiet_since_ + kQuiet
                                                                       : kNever;
}

}  // namespace farcall::server
