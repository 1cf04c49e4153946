// SPDX-License-Identifier: Apache-2.0
// Which of a session's records may put work on a device now: the compute gate, and the clock that
// measures what it lets through.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/device/event_clock.h"
#include "server/leases/compute_gate.h"

namespace farcall::server {

// Work is named by a key of what it is like; 0 is no work.
//   Thread  the issue thread
class WorkGate {
 public:
  // Slow work that was admitted and goes on beside the log: no other is, until it has ended.
  struct SlowWork {
    int device = 0;
    uint64_t key = 0;
    std::atomic<bool> ended{false};  // set by any thread, which wakes the issue thread
  };

  // Either may be null: no work is held; nobody measures device time by events. Both outlive this.
  // `fence`: as ComputeGate::Serve has it.
  WorkGate(const DriverApi& api, ComputeGate* gate, EventClock* clock, ComputeGate::Fence fence)
      : api_(api), gate_(gate), clock_(clock), fence_(std::move(fence)) {}

  bool engaged() const { return gate_ != nullptr && gate_->engaged(); }
  // Whether the work may go; then Stalled, Submitted or StartSlow says what became of it. If not,
  // the issue thread is woken when it may be asked for again.
  bool Admit(int device, CUcontext context, uint64_t key);
  // It did not go, but waits for something else.
  void Stalled(int device);
  void Submitted(int device, uint64_t key);
  std::shared_ptr<SlowWork> StartSlow(int device, uint64_t key);
  // Closes and watches batches, gives back leases. After each frame and whenever woken.
  void Serve();
  // When Serve has something to do though nobody wakes it; ComputeGate::kNever.
  quota::Ns ServeAt() { return engaged() ? gate_->ServeAt() : ComputeGate::kNever; }

 private:
  void NoteEnded();

  const DriverApi& api_;
  ComputeGate* const gate_;
  EventClock* const clock_;
  const ComputeGate::Fence fence_;
  std::shared_ptr<SlowWork> slow_;
};

}  // namespace farcall::server
