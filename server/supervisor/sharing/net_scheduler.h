// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of network budgets: lends the bytes of a vGPU to its workers, in the order
// in which they asked.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/status.h"
#include "quota/network/net_budget.h"
#include "server/control/net.h"

namespace farcall::server {

// What workers are told of their budget.
using NetMessage = std::variant<control::NetLimit, control::NetBytes>;

// Time comes in with every call.
class NetScheduler {
 public:
  using WorkerId = int;  // its control descriptor
  using Send = std::function<void(WorkerId, const NetMessage&)>;
  static constexpr quota::Ns kNever = INT64_MAX;

  // `ceiling`: bytes a second that a vGPU may ask for, and gets if it does not; 0: no bound.
  NetScheduler(uint64_t ceiling, Send send) : ceiling_(ceiling), send_(std::move(send)) {}

  // The first worker of a vGPU says what it is to get; 0: what the server allows.
  //   Errors  kInvalid (less than a session can live on), kRefused (above the ceiling)
  Status Join(const std::string& vgpu, WorkerId worker, uint64_t bytes_per_s, quota::Ns now);
  // It is there to hear whether it has a budget.
  void Begin(WorkerId worker);
  void Leave(WorkerId worker);
  // Whether a vGPU may have it.   Errors  as Join
  Status Check(uint64_t bytes_per_s) const { return Judge(bytes_per_s).status(); }
  // Of a running vGPU; 0: what the server allows.   Errors  as Join; kInvalid: no such vGPU
  Status Change(const std::string& vgpu, uint64_t bytes_per_s, quota::Ns now);
  // What workers say. Of one that has not joined nothing is heard.
  void OnMessage(WorkerId worker, const control::WantNetBytes& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::NetUse& message, quota::Ns now);
  // What time alone has brought about; call at WakeAt.
  void Tick(quota::Ns now);
  quota::Ns WakeAt(quota::Ns now);

  struct Use {
    uint64_t bytes_per_s = 0;  // 0: no budget
    uint64_t bytes_in = 0, bytes_out = 0;
    uint64_t waited_ns = 0;
  };
  Use UseOf(const std::string& vgpu) const;

 private:
  struct Vgpu {
    std::optional<quota::NetBudget> budget;
    std::deque<WorkerId> waiting;
    std::vector<WorkerId> workers;
    Use gone;  // of sessions that have ended
  };

  Result<uint64_t> Judge(uint64_t bytes_per_s) const;
  void Give(Vgpu& vgpu, quota::Ns now);

  const uint64_t ceiling_;
  const Send send_;
  std::map<std::string, Vgpu> vgpus_;
  std::map<WorkerId, std::string> vgpu_of_;
  std::map<WorkerId, Use> uses_;
};

}  // namespace farcall::server
