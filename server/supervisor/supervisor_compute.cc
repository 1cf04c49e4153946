// SPDX-License-Identifier: Apache-2.0
// Device time: the supervisor lends it by leases (lease_desk.h).
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/supervisor/supervisor.h"

namespace farcall::server {

// Clients of MPS run at once: what each may have, the driver holds them to.
void Supervisor::Engage(int control) {
  auto worker = workers_.find(control);
  if (worker != workers_.end() && !worker->second->mps_group.empty()) {
    return;
  }
  (void)control::Send(control, control::Sharing{});
}

// From the first vGPU on that has a share, a limit or a class, everybody takes leases.
void Supervisor::EngageIfShared() {
  if (engaged_ || !leases_.shares()) {
    return;
  }
  engaged_ = true;
  spdlog::info("device time is shared by leases from now on");
  for (const auto& [control, worker] : workers_) {
    Engage(control);
  }
}

void Supervisor::EngageNew(int control) {
  if (engaged_) {
    Engage(control);
  } else {
    EngageIfShared();
  }
}

int Supervisor::WaitForLeases(int wait_ms) {
  quota::Ns now = SteadyNow();
  leases_.Tick(now);
  net_.Tick(now);
  quota::Ns at = std::min(leases_.WakeAt(now), net_.WakeAt(now));
  static_assert(quota::DeviceScheduler::kNever == NetDesk::kNever);
  if (at == NetDesk::kNever) {
    return wait_ms;
  }
  auto until_ms = static_cast<int>((at - now + quota::kMillisecond - 1) / quota::kMillisecond);
  return std::clamp(until_ms, 0, wait_ms);
}

Status Supervisor::ChangeCompute(const std::string& vgpu, const QuotaChange& change) {
  for (const auto& [control, worker] : workers_) {
    if (worker->vgpu == vgpu && !worker->mps_group.empty()) {
      return {Code::kRefused,
              "its device is in mode mps, where share, limit and class hold from a process's start "
              "on"};
    }
  }
  quota::ComputeQuota now;
  for (const quota::VgpuStatus& status : leases_.Statuses(SteadyNow())) {
    if (status.vgpu == vgpu) {
      now = status.quota;
    }
  }
  QuotaRequest request;
  request.share_milli = change.share_milli.value_or(now.share_milli);
  request.limit_milli = change.limit_milli.value_or(now.limit_milli);
  request.priority = static_cast<uint8_t>(
      change.priority.value_or(static_cast<WirePriority>(OnTheWire(now.priority))));
  FARCALL_TRY(leases_.Change(vgpu, request, SteadyNow()));
  EngageIfShared();
  for (const quota::VgpuStatus& status : leases_.Statuses(SteadyNow())) {
    if (swap_ != nullptr && status.vgpu == vgpu) {
      swap_->SetPriority(vgpu, status.quota.priority);
    }
  }
  return {};
}

void Supervisor::PutCompute(const std::string& vgpu, const std::vector<quota::VgpuStatus>& all,
                            nlohmann::json* told) const {
  for (const quota::VgpuStatus& status : all) {
    if (status.vgpu != vgpu) {
      continue;
    }
    (*told)["share_milli"] = status.quota.share_milli;
    (*told)["limit_milli"] =
        status.quota.limit_milli == quota::kWholeMilli ? 0 : status.quota.limit_milli;
    (*told)["priority"] = quota::ToText(status.quota.priority);
    nlohmann::json& device = (*told)["devices"][static_cast<size_t>(status.device)];
    if (!engaged_) {
      continue;  // nothing is measured
    }
    device["share_wanted_milli"] = status.share_wanted_milli;
    device["share_got_milli"] = status.share_got_milli;
    device["device_ns"] = status.gpu_time_ns;
    device["debt_ns"] = status.debt_ns;
    device["runs"] = status.runs;
    if (status.waits_for != quota::WaitReason::kNone) {
      device["waits_for"] = quota::ToText(status.waits_for);
    }
    for (int reason = 1; reason < quota::kWaitReasons; ++reason) {
      device["waits"].push_back({{"reason", quota::ToText(static_cast<quota::WaitReason>(reason))},
                                 {"ns", status.waited_ns[reason]}});
    }
  }
}

}  // namespace farcall::server
