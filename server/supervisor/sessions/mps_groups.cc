// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/mps_groups.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/device/uuid_text.h"
#include "server/leases/lease_scheduler.h"

namespace farcall::server {

namespace {

// The ledger has the exact word. What the driver needs for itself counts against MPS's limit, so
// that leaves room for it, and stands behind the ledger only.
constexpr uint64_t kMpsOverheadBytes = uint64_t{512} << 20;

uint32_t PercentOf(uint32_t milli) {
  return std::max<uint32_t>((milli + 9) / 10, 1);
}

// 0: no limit of its own.
uint32_t Tighter(uint32_t max_limit_milli, uint32_t limit_milli) {
  return limit_milli == 0 ? max_limit_milli : std::min(max_limit_milli, limit_milli);
}

}  // namespace

Status MpsGroups::Open(MpsService::End end, MpsService::Count count) {
  if (!options_.modes.Any(DeviceMode::kMps)) return {};
  FARCALL_TRY(FindMpsControl().status());
  char folder[] = "/tmp/farcall-mps-XXXXXX";
  if (mkdtemp(folder) == nullptr)
    return {Code::kUnavailable, std::string("mode mps: no folder in /tmp: ") + strerror(errno)};
  service_ = std::make_unique<MpsService>(folder, std::move(end), std::move(count));
  return {};
}

// The defaults are what nobody of the group may exceed; a vGPU's own stands in its workers'
// environment.
Status MpsGroups::Ensure(const std::string& group, const quota::ClaimGrant* grant) {
  MpsOptions options;
  Result<std::string> program = FindMpsControl();
  if (!program.ok()) return program.status();
  options.program = *program;
  options.user = geteuid();
  uint32_t limit = options_.compute.max_limit_milli;
  std::vector<int> devices = placement_.AllDevices();
  if (grant != nullptr) {
    devices.assign(grant->devices.begin(), grant->devices.end());
    limit = Tighter(limit, grant->limit_milli);
  }
  options.default_percentage = limit < kWholeMilli ? PercentOf(limit) : 0;
  for (int device : devices) {
    if (!options.devices.empty()) options.devices += ',';
    options.devices += UuidText(devices_.report.devices[static_cast<size_t>(device)].uuid);
    uint64_t most = grant != nullptr ? grant->memory_bytes : options_.memory_bytes;
    options.default_memory_bytes.push_back(most == 0 ? 0 : most + kMpsOverheadBytes);
  }
  return service_->Ensure(group, std::move(options));
}

std::vector<std::string> MpsClientLimits(const QuotaRequest& compute, uint32_t max_limit_milli,
                                         const std::vector<uint64_t>& quotas) {
  std::vector<std::string> environment;
  const uint32_t limit = Tighter(max_limit_milli, compute.limit_milli);
  if (limit < kWholeMilli)
    environment.push_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + std::to_string(PercentOf(limit)));
  std::string memory;
  for (size_t i = 0; i < quotas.size(); ++i) {
    if (!memory.empty()) memory += ',';
    memory += std::to_string(i) + "=" + MpsDaemon::MemoryText(quotas[i] + kMpsOverheadBytes);
  }
  environment.push_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + memory);
  if (compute.priority == OnTheWire(quota::Priority::kLow))
    environment.emplace_back("CUDA_MPS_CLIENT_PRIORITY=1");  // below the others
  return environment;
}

std::vector<std::string> MpsGroups::EnvironmentOf(const WorkerSession& session,
                                                  const QuotaRequest& compute,
                                                  const quota::ClaimGrant* grant,
                                                  uint64_t asked_bytes) {
  if (session.mps_group.empty()) return {};
  std::vector<uint64_t> quotas;
  for (int device : session.devices) {
    quotas.push_back(grant != nullptr ? grant->memory_bytes
                                      : policy_.QuotaFor(asked_bytes, placement_.BytesOf(device)));
  }
  std::vector<std::string> environment = service_->EnvironmentOf(session.mps_group);
  for (std::string& limit : MpsClientLimits(compute, options_.compute.max_limit_milli, quotas))
    environment.push_back(std::move(limit));
  return environment;
}

}  // namespace farcall::server
