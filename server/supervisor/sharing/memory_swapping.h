// SPDX-License-Identifier: Apache-2.0
// Device memory beyond the device's: who is swapped out, which an operator may ask for too. Off
// unless the options lend more than there is or park the idle: then every charge has room, and
// nothing moves.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/control/charge.h"
#include "server/control/control_plane.h"
#include "server/leases/swap_scheduler.h"

namespace farcall::server {

struct ProbedDevices;
struct ServeOptions;

// None: these options swap nothing.
std::optional<SwapOptions> SwapOptionsOf(const ServeOptions& options, const ProbedDevices& devices);

// Time comes in with every call. A worker is its control descriptor.
class MemorySwapping {
 public:
  using WorkerId = SwapScheduler::WorkerId;
  struct Hooks {
    SwapScheduler::Hooks scheduler;
    std::function<void(const control::QuotaReply&)> answer;  // to whoever asked to park
    std::function<void(const std::string& name)> parked;
  };

  MemorySwapping(std::optional<SwapOptions> options, SwapScheduler::Ledger ledger, Hooks hooks);

  bool is_on() const { return scheduler_.has_value(); }
  void Join(WorkerId worker, const std::string& vgpu, quota::Priority priority, quota::Ns now);
  void SetPriority(const std::string& vgpu, quota::Priority priority);
  void Leave(WorkerId worker);

  // SwapScheduler's.
  SwapScheduler::Room Ask(WorkerId worker, const control::Charge& charge, quota::Ns now,
                          std::string* why);
  void Withdraw(WorkerId worker);
  template <typename M>
  requires requires(SwapScheduler& scheduler, WorkerId worker, const M& message, quota::Ns now) {
    scheduler.OnMessage(worker, message, now);
  }
  void OnMessage(WorkerId worker, const M& message, quota::Ns now) {
    if (scheduler_) scheduler_->OnMessage(worker, message, now);
  }
  void Tick(quota::Ns now);
  quota::Ns WakeAt(quota::Ns now) const;  // INT64_MAX: never

  // An operator's question, answered once the memory has left or stays. `vgpu`: the one it names;
  // empty: there is none.
  void Park(const control::Park& question, const std::string& vgpu, quota::Ns now);

  // The vGPU's memory leaves its devices and stays away until LetIn: `done` hears "", or why it is
  // there still; at once or later, and not at all once it has been let in.
  using Done = std::function<void(const std::string& refused)>;
  void HoldOut(const std::string& vgpu, quota::Ns now, Done done);
  void LetIn(const std::string& vgpu);
  // Host memory for what is not on its device.
  uint64_t host_bytes() const { return scheduler_ ? scheduler_->options().host_bytes : 0; }

  bool takes_more() const { return !scheduler_ || scheduler_->takes_more(); }
  // Of the worker's charged bytes, those that are not on the device.
  uint64_t BytesOut(WorkerId worker, int device, quota::Ns now) const;
  // Adds to the status of a vGPU, whose "sessions" are those of `members` in the same order, and to
  // the server's.
  void PutVgpu(const std::vector<WorkerId>& members, quota::Ns now, nlohmann::json* told) const;
  void PutTotals(nlohmann::json* status) const;

 private:
  struct Parking {
    control::Park question;
    std::string vgpu;
  };
  void AnswerParked();
  void AnswerHeldOut();

  std::optional<SwapScheduler> scheduler_;
  const Hooks hooks_;
  std::vector<Parking> parkings_;  // under way
  std::map<std::string, Done> holding_out_;
};

}  // namespace farcall::server
