// SPDX-License-Identifier: Apache-2.0
// What is told of the server's sessions: to the control plane and the pool, and in the audit. JSON
// with the names of proto/control.proto: farcall-control reads it by protobuf's own mapping.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/sessions/driver_memory.h"
#include "server/supervisor/sessions/session_placement.h"
#include "server/supervisor/sessions/session_table.h"
#include "server/supervisor/sharing/memory_charges.h"
#include "server/supervisor/sharing/memory_swapping.h"
#include "server/supervisor/sharing/net_scheduler.h"
#include "server/supervisor/sharing/time_sharing.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

// Of the server itself.
struct ServerState {
  Clock::time_point since;
  bool is_draining = false;
  uint64_t sessions_started = 0;
};

//   Thread  one at a time
class StatusReport {
 public:
  // Whom it asks; all outlive it.
  struct Parts {
    const ServeOptions& options;
    const ProbedDevices& devices;
    const SessionTable& sessions;
    const SessionPlacement& placement;
    const MemoryCharges& charges;
    const TimeSharing& time;
    const NetScheduler& net;
    const MemorySwapping& swap;
    const DriverMemory& driver_memory;
  };
  explicit StatusReport(const Parts& parts) : parts_(parts) {}

  nlohmann::json OfServer(const ServerState& server) const;
  // What an event of the session's has in the audit.
  nlohmann::json AuditFields(const WorkerSession& session) const;
  // The vGPU that the report names so; empty: none that runs.
  std::string VgpuById(std::string_view id) const;

 private:
  nlohmann::json OfVgpu(const std::string& vgpu, const std::vector<const WorkerSession*>& members,
                        const std::vector<quota::VgpuStatus>& compute) const;

  const Parts parts_;
};

// A vGPU's name for people. A token's own text lets its holder join, so it is not shown.
std::string PublicId(const std::string& vgpu);
// A client's text may be anything but UTF-8.
std::string JsonText(const nlohmann::json& json);

}  // namespace farcall::server
