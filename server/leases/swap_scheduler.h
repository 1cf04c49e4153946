// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of swapping: whose memory is on the device, who leaves it for whom, and
// what waits for room. A session moves as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "proto/status.h"
#include "quota/compute_quota.h"
#include "quota/memory/residency.h"
#include "quota/memory/swap_policy.h"
#include "server/control/swap.h"

namespace farcall::server {

struct SwapOptions {
  std::vector<uint64_t> budget_bytes;  // of each device: what may be on it at once
  std::vector<uint64_t> lent_bytes;    // of each device: what may be charged in all
  uint64_t host_bytes = 0;             // for what is out
  quota::Ns park_after_ns = 0;         // who idles so long leaves unasked; 0: nobody does
};

// What workers are told to do.
using SwapMessage = std::variant<control::SwapOut, control::SwapIn>;

// Time comes in with every call.
class SwapScheduler {
 public:
  using WorkerId = int;  // its control descriptor
  // What the ledger knows.
  struct Ledger {
    std::function<uint64_t(WorkerId, int device)> held;  // charged for the worker
    std::function<uint64_t(int device)> held_by_all;     // and what belongs to no one session
    std::function<uint64_t(WorkerId, int device)> free;  // what its vGPU may still be charged
  };
  struct Hooks {
    std::function<void(WorkerId, const SwapMessage&)> send;
    // It does not do what it has to for the others' sake.   May not call Leave
    std::function<void(WorkerId, const std::string& why)> end;
    // So many bytes left the device or came back, by the worker's word as far as it can be true.
    std::function<void(WorkerId, bool out, uint64_t bytes, quota::Ns took)> moved;
  };
  enum class Room { kThere, kComes, kNever };
  enum class Parked { kPending, kDone, kStayed };
  struct Totals {
    uint64_t count = 0, bytes = 0;
    quota::Ns ns = 0;
  };
  struct Standing {
    std::string state;  // resident, leaves, swapped, parked, comes back
    bool waits = false;
    quota::Ns waited_ns = 0;
    std::vector<uint64_t> out_bytes;  // by device
    Totals out, in;
  };

  SwapScheduler(SwapOptions options, Ledger ledger, Hooks hooks);

  void Join(WorkerId worker, const std::string& vgpu, quota::Priority priority, quota::Ns now);
  void SetPriority(const std::string& vgpu, quota::Priority priority);
  void Leave(WorkerId worker);

  // Whether the worker may be charged for so much more. kComes: ask again after each Tick; what it
  // waits for is under way. kNever: `why` says what would be right.
  Room Ask(WorkerId worker, int device, uint64_t bytes, quota::Ns now, std::string* why);
  // It asks no longer.
  void Withdraw(WorkerId worker);
  // What workers say. What does not fit what the worker was asked is ignored.
  void OnMessage(WorkerId worker, const control::Idle& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::WantIn& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::Moved& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::SwapDone& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::DeviceFull& message, quota::Ns now);
  void Tick(quota::Ns now);
  quota::Ns WakeAt(quota::Ns now) const;

  // The memory of all its sessions leaves, wanted by others or not, once their work is done.
  //   Errors  kRefused (no host memory left for it)
  Status Park(const std::string& vgpu, quota::Ns now);
  Parked ParkedYet(const std::string& vgpu) const;
  // The same, and its memory stays away, whatever its sessions want, until LetIn; what is away so
  // is not counted as lent.   Errors  as Park
  Status HoldOut(const std::string& vgpu, quota::Ns now);
  void LetIn(const std::string& vgpu);
  // Of what the vGPU has on its devices, what cannot leave them.
  uint64_t StaysOf(const std::string& vgpu) const;

  // False: even the longest quanta do not pay any more; no new sessions.
  bool takes_more() const { return watch_.takes_more(); }
  Standing Of(WorkerId worker, quota::Ns now) const;
  uint64_t resident_bytes(int device) const;
  uint64_t host_bytes_used() const;
  const SwapOptions& options() const { return options_; }
  const Totals& totals_out() const { return out_; }
  const Totals& totals_in() const { return in_; }

 private:
  enum class State { kIn, kLeaving, kOut, kEntering };
  enum class ParkState { kNone, kPending, kDone, kStayed };
  struct Member {
    std::string vgpu;
    quota::Priority priority = quota::Priority::kNormal;
    State state = State::kIn;
    bool idle = false;
    quota::Ns idle_since = 0, in_since = 0;
    quota::Ns pause_ns = 0;    // how long its pauses are, by and large
    quota::Ns not_before = 0;  // its work did not end, or the device was full: not sooner again
    bool wants_in = false;
    quota::Ns wants_since = 0, waited_ns = 0;  // for room: to come in, or to grow
    bool parked = false;
    bool held_out = false;
    ParkState park = ParkState::kNone;
    std::vector<uint64_t> out, pinned, asks;  // bytes by device
    uint64_t slab_bytes = 0;                  // host memory that it has or is about to have
    quota::Ns moves_since = 0;                // asked to leave or to come back
    uint64_t moving_bytes = 0;
    struct Grant {
      uint64_t bytes = 0;  // 0: none, or the device's answer to it is known
      quota::Ns at = 0;
    };
    struct Refusal {
      uint64_t missing_bytes = 0;  // the device holds so much less than it said
      quota::Ns until = 0;
    };
    std::vector<Grant> granted;    // the last one, by device
    std::vector<Refusal> refused;  // by device
    Totals moved_out, moved_in;
  };
  using Members = std::map<WorkerId, Member>;

  bool waits(const Member& member) const;
  static void EndPause(Member& member, quota::Ns now);
  // When it may be taken to idle on for longer than moving it takes; SwapCandidate::kBusy: it
  // works, or soon will.
  quota::Ns IdleSince(WorkerId worker, const Member& member, uint64_t comes_bytes,
                      quota::Ns now) const;
  void NoteWait(Member& member, quota::Ns now);
  void EndWait(Member& member, quota::Ns now);
  uint64_t Movable(WorkerId worker, const Member& member, int device) const;
  uint64_t MovableOnAll(WorkerId worker, const Member& member) const;
  // Of what is on the device, what others could make room with some time.
  uint64_t MayLeaveFor(WorkerId asker, const Member& member, int device) const;
  quota::Ns CostOf(uint64_t bytes) const;
  // Makes room for the member, or brings it in. False: it waits on.
  bool Help(WorkerId worker, Member& member, std::vector<uint64_t>* promised, quota::Ns now);
  void Evict(WorkerId asker, const Member& member, int device, uint64_t bytes, quota::Ns now);
  void SendOut(WorkerId worker, Member& member, quota::Ns now);
  uint64_t HeldOut(int device) const;
  Member* Find(WorkerId worker);
  bool IsKnown(int32_t device) const {
    return device >= 0 && static_cast<size_t>(device) < options_.budget_bytes.size();
  }
  void CountMove(WorkerId worker, Member& member, const control::SwapDone& message, bool out,
                 quota::Ns now);
  void NoteRefusal(Member& member, int device, quota::Ns now);
  // What may be on the device: less than the options' where it has refused.
  uint64_t Budget(int device) const;
  void Forget(quota::Ns now);
  void EndTheStuck(quota::Ns now);
  void ParkIdle(quota::Ns now);

  const SwapOptions options_;
  const Ledger ledger_;
  const Hooks hooks_;
  Members members_;
  quota::ThrashWatch watch_;
  double bytes_per_ns_ = 4;  // as measured, mapping included; a guess until then
  Totals out_, in_;
};

}  // namespace farcall::server
