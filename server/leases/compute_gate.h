// SPDX-License-Identifier: Apache-2.0
// A session's gate: its work reaches a device under the vGPU's lease, in batches that are watched
// and charged. The leases are the supervisor's (lease_scheduler.h); here is only what it may do
// now.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <variant>
#include <vector>

#include "quota/scheduling/idle_hold.h"
#include "quota/scheduling/pace.h"
#include "quota/scheduling/work_window.h"
#include "server/control/lease.h"

namespace farcall::server {

// What a gate tells the supervisor.
using GateMessage =
    std::variant<control::WantLease, control::LeaseUse, control::LeaseRuns, control::LeaseDone>;

struct GateHooks {
  std::function<void(const GateMessage&)> tell;  // the supervisor
  std::function<void()> wake;                    // the issue thread
  std::function<quota::Ns()> now;
  // Device time this session has used; empty: what passes on the clock while work is there counts.
  std::function<quota::Ns(int device)> used;
};

// Until the server has a vGPU with a share, a limit or a class, all passes and nothing is counted.
class ComputeGate {
 public:
  // Calls `done` once all work now on the session's streams of `device` has run.
  using Fence = std::function<void(int device, std::function<void()> done)>;
  static constexpr quota::Ns kNever = INT64_MAX;

  ComputeGate(int devices, GateHooks hooks);

  bool engaged() const { return engaged_.load(std::memory_order_acquire); }

  // ---- the issue thread
  // Whether the work may go on its way. If not, the issue thread is woken when it may be asked for
  // again.
  bool Admit(int device, uint64_t key);
  // It went. True: Serve before the next.
  bool Submitted(int device, uint64_t key);
  // Closes and watches batches, gives back leases. After each frame and whenever woken.
  void Serve(const Fence& fence);
  // When Serve has something to do though nobody wakes it.
  quota::Ns ServeAt();

  // ---- any thread
  // The supervisor's messages.
  void OnMessage(const control::Sharing& message);
  void OnMessage(const control::Lease& message);
  void OnMessage(const control::LeaseMore& message);
  void OnMessage(const control::LeaseLimit& message);

 private:
  struct Device {
    quota::WorkWindow window;
    quota::IdleHold idle;
    quota::Pace pace;
    bool asked = false;
    bool holds_back = false;        // a record waits here
    quota::Ns held_longest_ns = 0;  // what that record takes at most, as far as known
    bool contended = false;         // others wait for the lease
    quota::Ns idle_since = 0;       // 0: not idle
    quota::Ns submitted_at = 0;     // last
    quota::Ns progress_at = 0;      // when something was last done, or let through for lack of it
    quota::Ns used_ns = 0;          // charged so far, by the device's own count
    quota::Ns reported_at = 0;      // when something was last told of it
    quota::Ns unreported_ns = 0;  // charged and not told yet: nobody else would do anything with it
    quota::Ns early_ns = 0;       // told of what has not completed
    quota::Ns busy_since = 0;     // by the clock: since then, work is there, or the last was done
  };

  void Completed(int device, uint64_t batch);
  // While something runs long: so that it is charged as it runs, not when it ends.
  bool TellsOfRunning(const Device& state) const { return hooks_.used && !state.window.drained(); }
  void TellOfRunning(int device, Device& state, quota::Ns now);
  // Somebody could make something of it.
  static bool IsNews(const Device& state, quota::Ns now);
  void TellUse(int device, Device& state, quota::Ns now);
  void GiveBackIfDone(int device, Device& state, quota::Ns now);
  static void SetCompany(Device& state, control::Company company);
  // Null: the session has no such device.
  Device* Find(int32_t device);
  quota::Ns Used(int device, Device& state);

  const GateHooks hooks_;
  std::atomic<bool> engaged_{false};
  std::mutex mutex_;  // all below
  std::vector<Device> devices_;
};

}  // namespace farcall::server
