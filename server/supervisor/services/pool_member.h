// SPDX-License-Identifier: Apache-2.0
// The supervisor as a host of a pool: its ledger of claims, the leases it takes, and the agent, a
// process that speaks gRPC to the pool and only passes on what is said.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quota/claim_ledger.h"
#include "server/control/messages.h"
#include "server/device/device_library.h"
#include "server/supervisor/options/pool_options.h"
#include "server/supervisor/processes/helper_process.h"
#include "server/supervisor/services/lease_gate.h"
#include "transport/channel.h"

namespace farcall::server {

class PoolMember {
 public:
  // What the supervisor does for it.
  struct Calls {
    std::function<void(const std::string& claim, const std::string& why)> end_sessions;
    // Changes what a claim's sessions may use; FinishChange is called for it, at once or later.
    std::function<void(const quota::ClaimGrant& from, const quota::ClaimGrant& to)> change;
    // Has a claim's memory leave its devices (FinishParking is called for it, at once or later), or
    // lets it come back.
    std::function<void(const quota::ClaimLedger::Parking&)> park;
    // control.proto's ServerStatus.
    std::function<nlohmann::json()> status;
  };

  // `epoll`: the supervisor's loop, which calls OnReadable for what this one watches.
  //   Thread  under the supervisor's lock
  PoolMember(Closer& closer, int epoll, PoolOptions options, const DeviceReport& devices,
             quota::ClaimBounds bounds, Calls calls);

  bool is_in_pool() const { return !options_.url.empty(); }
  // Starts the agent.   Errors  kUnavailable
  Status Open(const std::vector<std::string>& urls);

  // A seat of the claim that the lease names.   Errors  kRefused (one line)
  Result<quota::ClaimGrant> Admit(const std::string& lease);
  // How a change went: "": well.
  void FinishChange(const std::string& claim, uint64_t revision, const std::string& refused);
  void FinishParking(const std::string& claim, const std::string& refused);
  // The session is over.
  void Leave(const std::string& claim);

  // Whether `fd` was this one's to hear; hears it.
  bool OnReadable(int fd);
  // What time brings: holds that are over, an agent to start again.
  void Tick();
  void Drain();

 private:
  Status StartAgent();
  void Report(const control::PoolBeat& question);
  void OnPoolAnswer(const control::PoolAnswer& message, int file);
  void Changed();
  std::string ReportJson();

  const PoolOptions options_;
  const DeviceReport devices_;
  const std::vector<std::optional<uint32_t>> numa_nodes_;   // of each
  const std::vector<std::optional<uint32_t>> link_groups_;  // the same
  const Calls calls_;
  const quota::ClaimBounds bounds_;
  quota::ClaimLedger ledger_;
  const uint64_t incarnation_;
  LeaseGate leases_;
  std::vector<std::string> urls_;
  HelperProcess agent_;
  Clock::time_point start_again_{}, next_refusal_{}, next_status_{};
  bool is_draining_ = false;
};

}  // namespace farcall::server
