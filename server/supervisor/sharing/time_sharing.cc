// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/time_sharing.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace farcall::server {

void TimeSharing::Begin(WorkerId worker, const std::string& vgpu, bool takes_leases) {
  members_[worker] = {vgpu, takes_leases};
  if (!EngageIfShared() && engaged_ && takes_leases) hooks_.engage(worker);
}

void TimeSharing::Leave(WorkerId worker, quota::Ns now) {
  members_.erase(worker);
  leases_.Leave(worker, now);
}

// True: all that take leases have just been told to.
bool TimeSharing::EngageIfShared() {
  if (engaged_ || !leases_.shares()) return false;
  engaged_ = true;
  spdlog::info("device time is shared by leases from now on");
  for (const auto& [worker, member] : members_)
    if (member.takes_leases) hooks_.engage(worker);
  return true;
}

Status TimeSharing::Change(const std::string& vgpu, const QuotaChange& change, quota::Ns now) {
  for (const auto& [worker, member] : members_) {
    if (member.vgpu == vgpu && !member.takes_leases) {
      return {Code::kRefused,
              "its device is in mode mps, where share, limit and class hold from a process's start "
              "on"};
    }
  }
  quota::ComputeQuota current;
  for (const quota::VgpuStatus& status : leases_.Statuses(now))
    if (status.vgpu == vgpu) current = status.quota;
  QuotaRequest request;
  request.share_milli = change.share_milli.value_or(current.share_milli);
  request.limit_milli = change.limit_milli.value_or(current.limit_milli);
  request.priority = static_cast<uint8_t>(
      change.priority.value_or(static_cast<WirePriority>(OnTheWire(current.priority))));
  FARCALL_TRY(leases_.Change(vgpu, request, now));
  EngageIfShared();
  for (const quota::VgpuStatus& status : leases_.Statuses(now))
    if (status.vgpu == vgpu) hooks_.set_priority(vgpu, status.quota.priority);
  return {};
}

quota::Priority TimeSharing::PriorityOf(const std::string& vgpu, quota::Ns now) const {
  quota::Priority priority = quota::Priority::kNormal;
  for (const quota::VgpuStatus& status : leases_.Statuses(now))
    priority = status.vgpu == vgpu ? status.quota.priority : priority;
  return priority;
}

void TimeSharing::PutVgpu(const std::string& vgpu, const std::vector<quota::VgpuStatus>& all,
                          nlohmann::json* told) const {
  for (const quota::VgpuStatus& status : all) {
    if (status.vgpu != vgpu) continue;
    (*told)["share_milli"] = status.quota.share_milli;
    (*told)["limit_milli"] = status.quota.limit_milli == kWholeMilli ? 0 : status.quota.limit_milli;
    (*told)["priority"] = quota::ToText(status.quota.priority);
    nlohmann::json& device = (*told)["devices"][static_cast<size_t>(status.device)];
    if (!engaged_) continue;  // nothing is measured
    device["share_wanted_milli"] = status.share_wanted_milli;
    device["share_got_milli"] = status.share_got_milli;
    device["device_ns"] = status.gpu_time_ns;
    device["debt_ns"] = status.debt_ns;
    device["runs"] = status.runs;
    if (status.waits_for != quota::WaitReason::kNone)
      device["waits_for"] = quota::ToText(status.waits_for);
    for (int reason = 1; reason < quota::kWaitReasons; ++reason) {
      device["waits"].push_back({{"reason", quota::ToText(static_cast<quota::WaitReason>(reason))},
                                 {"ns", status.waited_ns[reason]}});
    }
  }
}

void TimeSharing::PutDevice(int device, quota::Ns now, nlohmann::json* told) const {
  if (!engaged_) return;  // nothing is measured
  const LeaseScheduler::DeviceUse use = leases_.UseOf(device, now);
  (*told)["busy_ns"] = use.busy_ns;
  (*told)["busy_milli"] = use.busy_milli;
}

}  // namespace farcall::server
