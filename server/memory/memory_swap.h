// SPDX-License-Identifier: Apache-2.0
// A session's side of swapping: when its memory may leave the device, and which records wait for it
// to be back. The supervisor decides (swap_desk.h).
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "proto/status.h"
#include "quota/compute_quota.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_slabs.h"
#include "server/session/control.h"
#include "server/session/helper.h"

namespace farcall::server {

struct SwapHooks {
  std::function<void(const ControlMessage&)> tell;  // the supervisor
  std::function<void()> wake;                       // the issue thread
  std::function<quota::Ns()> now;
  std::function<void(const Status&)> end;  // the session: its memory is lost
};

// What swapping needs of the session.   Thread  the issue thread
class SwapGround {
 public:
  virtual ~SwapGround() = default;
  // Calls `done` once all that is now on the session's streams has run.
  virtual void FenceAll(std::function<void()> done) = 0;
  // No other thread of the session's works with device memory, and no capture is under way.
  virtual bool Quiet() = 0;
  // Of each device, one of the session's.
  virtual std::map<int, CUcontext> Contexts() = 0;
  virtual DeviceMemory& SwappedMemory() = 0;
};

class MemorySwap {
 public:
  static constexpr quota::Ns kNever = INT64_MAX;

  MemorySwap(const DriverApi& api, int devices, SwapHooks hooks)
      : devices_(devices), hooks_(std::move(hooks)), slabs_(api), mover_([] {}) {}

  // ---- the issue thread
  // Whether a record that may need the session's memory may be served. If not, it is asked for, and
  // the issue thread is woken when it is there.
  bool Admit();
  // The same of one that gives unspent credit back: it need not be on the device.
  bool AdmitReturn() const;
  // What it gave back was out.
  void NoteReturn(SwapGround& ground);
  // Says when the session has nothing on the device; drains it. Whenever woken, and at ServeAt.
  void Serve(SwapGround& ground);
  quota::Ns ServeAt() const;
  void ForgetContext(CUcontext context) { slabs_.ForgetContext(context); }  // any thread
  // No move goes on afterwards.
  void Stop() { mover_.Stop(); }

  // ---- any thread
  // kSwapOut, kSwapIn.
  void Hear(const ControlMessage& message);

 private:
  enum class State { kIn, kDraining, kMovingOut, kOut, kMovingIn };

  void WatchIdle(SwapGround& ground);
  void Drain(SwapGround& ground);
  void MoveOut(DeviceMemory& memory);
  void MoveIn(DeviceMemory& memory, bool keep);
  void Fence(SwapGround& ground);
  void Tell(ControlType type, uint64_t a, uint64_t b = 0, uint64_t c = 0, int device = 0);
  void TellMoved(DeviceMemory& memory);

  const int devices_;
  const SwapHooks hooks_;
  HostSlabs slabs_;
  std::atomic<State> state_{State::kIn};

  // ---- the issue thread's
  bool touched_ = true;  // a record was served since Serve looked
  bool told_idle_ = false;
  bool asked_ = false;
  quota::Ns quiet_since_ = 0;
  bool fencing_ = false;
  uint64_t fence_ = 0;                 // of the fence under way
  std::atomic<uint64_t> reached_{0};   // the last one that was reached
  std::map<int, CUcontext> contexts_;  // as of the drain; none comes or goes while memory is out
  DeviceMemory* memory_ = nullptr;     // as of the drain

  std::mutex mutex_;  // below; state changes
  quota::Ns patience_ns_ = 0, drain_until_ = 0;
  Helper mover_;
};

}  // namespace farcall::server
