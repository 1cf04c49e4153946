// SPDX-License-Identifier: Apache-2.0
// Device time (time_sharing.h): who is told of it, and what is told of it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/supervisor/supervisor.h"

namespace farcall::server {

TimeSharing::Hooks Supervisor::HooksOfTime() {
  TimeSharing::Hooks hooks;
  hooks.send = [this](int control, const LeaseMessage& message) { (void)Tell(control, message); };
  hooks.engage = [](int control) { (void)control::Send(control, control::Sharing{}); };
  hooks.set_priority = [this](const std::string& vgpu, quota::Priority priority) {
    if (swap_ != nullptr) swap_->SetPriority(vgpu, priority);
  };
  return hooks;
}

int Supervisor::WaitForLeases(int wait_ms) {
  quota::Ns now = SteadyNow();
  time_.Tick(now);
  net_.Tick(now);
  quota::Ns at = std::min(time_.WakeAt(now), net_.WakeAt(now));
  static_assert(quota::DeviceScheduler::kNever == NetScheduler::kNever);
  if (at == NetScheduler::kNever) {
    return wait_ms;
  }
  auto until_ms = static_cast<int>((at - now + quota::kMillisecond - 1) / quota::kMillisecond);
  return std::clamp(until_ms, 0, wait_ms);
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
    if (!time_.engaged()) {
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
