// SPDX-License-Identifier: Apache-2.0
// A session's side of swapping: when its memory may leave the device, and which records wait for it
// to be back. The supervisor decides (swap_scheduler.h). And, without any swapping, its memory in
// smaller chunks where it has run out of it, for which its work has to stand still as well.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <variant>

#include "proto/status.h"
#include "quota/compute_quota.h"
#include "server/control/swap.h"
#include "server/device/helper.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_slabs.h"
#include "sync/cond_var.h"

namespace farcall::server {

// What a session tells the supervisor of its memory.
using SwapReport = std::variant<control::Idle, control::WantIn, control::Moved, control::SwapDone>;

struct SwapHooks {
  std::function<void(const SwapReport&)> tell;  // the supervisor
  std::function<void()> wake;                   // the issue thread
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

  // `swaps`: the server may ask for the session's memory, and wants to know when it idles.
  MemorySwap(const DriverApi& api, int devices, bool swaps, SwapHooks hooks)
      : devices_(devices), swaps_(swaps), hooks_(std::move(hooks)), slabs_(api), mover_([] {}) {}
  bool swaps() const { return swaps_; }

  // ---- the issue thread
  // Whether a record that may need the session's memory may be served. If not, it is asked for, and
  // the issue thread is woken when it is there.
  bool Admit();
  // The same of one that gives unspent credit back: it need not be on the device.
  bool AdmitReturn();
  // What it gave back was out.
  void NoteReturn(SwapGround& ground);
  // Says when the session has nothing on the device; drains it. Whenever woken, and at ServeAt.
  void Serve(SwapGround& ground);
  quota::Ns ServeAt() const;
  void ForgetContext(CUcontext context) { slabs_.ForgetContext(context); }  // any thread
  // No move goes on afterwards, and nobody waits for one.
  void Stop();

  // ---- any thread
  // The supervisor's messages.
  void OnMessage(const control::SwapOut& message);
  void OnMessage(const control::SwapIn& message);
  // Gives back what came back of chunks still in use, once the session's work stands still; waits
  // for that: half a minute, or two seconds from when a record has to wait. False: it does not by
  // then, or nothing came of it.
  //   Thread  one of the session's helpers
  bool Split(int device);
  // Helpers that are in Split: they work with nothing.
  int waiting_splits() const { return waiting_splits_.load(); }

 private:
  enum class State { kIn, kDraining, kMovingOut, kOut, kMovingIn, kSplitting };

  void WatchIdle(SwapGround& ground);
  void Drain(SwapGround& ground);
  void NoteBlocked(State state);
  quota::Ns DrainEnd() const;
  void EndDrain();
  void MoveOut(DeviceMemory& memory);
  void MoveIn(DeviceMemory& memory, bool keep);
  void SplitNow(DeviceMemory& memory, int device);
  void EndSplit(bool gained);
  bool splits() const { return splitting_ && !splitting_->is_over; }  // mutex_ held
  void Fence(SwapGround& ground);
  void TellDone(control::SwapOutcome outcome, quota::Ns took, uint64_t moved_bytes);
  void TellMoved(DeviceMemory& memory);

  const int devices_;
  const bool swaps_;
  const SwapHooks hooks_;
  HostSlabs slabs_;
  std::atomic<State> state_{State::kIn};

  // ---- the issue thread's
  bool touched_ = true;  // a record was served since Serve looked
  bool notified_idle_ = false;
  bool asked_ = false;
  quota::Ns quiet_since_ = 0;
  quota::Ns drain_until_ = 0;                  // 0: the drain has not begun
  std::atomic<quota::Ns> blocked_at_{kNever};  // the first record since then had to wait
  bool drains_to_split_ = false;
  bool fencing_ = false;
  uint64_t fence_ = 0;                 // of the fence under way
  std::atomic<uint64_t> reached_{0};   // the last one that was reached
  std::map<int, CUcontext> contexts_;  // as of the drain; none comes or goes while memory is out
  DeviceMemory* memory_ = nullptr;     // as of the drain

  std::mutex mutex_;  // below; state changes
  quota::Ns patience_ns_ = 0;
  struct Splitting {
    int device = 0;
    bool is_over = false, gained = false;
  };
  std::optional<Splitting> splitting_;         // what it drains for; else it is to leave
  std::optional<control::SwapOut> asked_out_;  // meanwhile
  CondVar split_over_;
  bool stopped_ = false;
  std::atomic<int> waiting_splits_{0};
  Helper mover_;
};

}  // namespace farcall::server
