// SPDX-License-Identifier: Apache-2.0
// Device time among vGPUs: lent by leases from the first vGPU on that has a share, a limit or a
// class.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/control/control_plane.h"
#include "server/leases/lease_scheduler.h"

namespace farcall::server {

// Time comes in with every call. A worker is its control descriptor.
class TimeSharing {
 public:
  using WorkerId = int;
  struct Hooks {
    std::function<void(WorkerId, const LeaseMessage&)> send;
    std::function<void(WorkerId)> engage;  // it is to take leases from now on
    std::function<void(const std::string& vgpu, quota::Priority)> set_priority;
  };

  TimeSharing(int devices, const quota::ComputePolicy& policy, Hooks hooks,
              const quota::SchedulerOptions& options = {})
      : hooks_(std::move(hooks)), leases_(devices, policy, hooks_.send, options) {}

  // Before its process runs.   Errors  LeaseScheduler::Join's
  Status Join(const std::string& vgpu, WorkerId worker, const QuotaRequest& request,
              const std::vector<int>& devices, quota::Ns now) {
    return leases_.Join(vgpu, worker, request, devices, now);
  }
  // It runs. `takes_leases`: false for clients of MPS, which run at once: what each may have, the
  // driver holds them to.
  void Begin(WorkerId worker, const std::string& vgpu, bool takes_leases);
  void Leave(WorkerId worker, quota::Ns now);
  // What workers say.
  template <typename M>
  requires requires(LeaseScheduler& leases, WorkerId worker, const M& message, quota::Ns now) {
    leases.OnMessage(worker, message, now);
  }
  void OnMessage(WorkerId worker, const M& message, quota::Ns now) {
    leases_.OnMessage(worker, message, now);
  }
  // Of a running vGPU; what the change does not name stays.
  //   Errors  kRefused, kInvalid (LeaseScheduler::Change's; its workers take no leases)
  Status Change(const std::string& vgpu, const QuotaChange& change, quota::Ns now);
  void Tick(quota::Ns now) { leases_.Tick(now); }
  quota::Ns WakeAt(quota::Ns now) { return leases_.WakeAt(now); }

  // Leases are taken, and device time is measured.
  bool engaged() const { return engaged_; }
  std::vector<quota::VgpuStatus> Statuses(quota::Ns now) const { return leases_.Statuses(now); }
  // Adds to the status of a vGPU, whose "devices" are there; `all`: Statuses'.
  void PutVgpu(const std::string& vgpu, const std::vector<quota::VgpuStatus>& all,
               nlohmann::json* told) const;
  // Adds to the status of a device.
  void PutDevice(int device, quota::Ns now, nlohmann::json* told) const;
  quota::Priority PriorityOf(const std::string& vgpu, quota::Ns now) const;

 private:
  struct Member {
    std::string vgpu;
    bool takes_leases = true;
  };
  bool EngageIfShared();

  const Hooks hooks_;
  LeaseScheduler leases_;
  std::map<WorkerId, Member> members_;
  bool engaged_ = false;
};

}  // namespace farcall::server
