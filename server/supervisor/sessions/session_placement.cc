// SPDX-License-Identifier: Apache-2.0
// How devices are shared: exclusively, by MPS, by MIG instances. Slices are time_sharing.h.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "server/device/uuid_text.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

constexpr char kAllSessions[] = "server";  // the one group of those who hold the server's token
// The ledger has the exact word. What the driver needs for itself counts against MPS's limit, so
// that leaves room for it, and stands behind the ledger only.
constexpr uint64_t kMpsOverheadBytes = uint64_t{512} << 20;

uint32_t PercentOf(uint32_t milli) {
  return std::max<uint32_t>((milli + 9) / 10, 1);
}

}  // namespace

// A process sees one MIG instance, and is an MPS client with all of its devices or with none.
Status Supervisor::PlaceSession(const Worker& worker) const {
  if (options_.modes.Any(DeviceMode::kMig) && worker.devices.size() != 1) {
    return {Code::kRefused, "mode mig: asked for " + std::to_string(worker.devices.size()) +
                                " devices; a program sees one MIG instance"};
  }
  for (int device : worker.devices) {
    if ((ModeOf(device) == DeviceMode::kMps) != !worker.mps_group.empty()) {
      return {Code::kRefused, "mode mps: of its devices some are in that mode and some are not"};
    }
  }
  return ExclusiveOf(worker);
}

Status Supervisor::ExclusiveOf(const Worker& worker) const {
  for (int device : worker.devices) {
    for (const auto& [control, other] : workers_) {
      bool has_it =
          std::find(other->devices.begin(), other->devices.end(), device) != other->devices.end();
      if (ModeOf(device) == DeviceMode::kExclusive && has_it && other->vgpu != worker.vgpu) {
        return {Code::kRefused,
                "device " + std::to_string(device) + " is exclusive: " + other->who + " has it"};
      }
    }
  }
  return {};
}

// That of the vGPU's other sessions, else the one with the fewest vGPUs.
int Supervisor::PickInstance(const std::string& vgpu) const {
  std::vector<std::set<std::string>> vgpus(devices_.report.devices.size());
  for (const auto& [control, worker] : workers_) {
    if (worker->vgpu == vgpu) {
      return worker->devices.front();
    }
    for (int device : worker->devices) {
      vgpus[static_cast<size_t>(device)].insert(worker->vgpu);
    }
  }
  auto least = std::min_element(vgpus.begin(), vgpus.end(),
                                [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return static_cast<int>(least - vgpus.begin());
}

// Whoever holds the server's token trusts the others who do; each claim of a pool is by itself.
std::string Supervisor::MpsGroupOf(const quota::ClaimGrant* grant) const {
  if (grant == nullptr) {
    return ModeOf(0) == DeviceMode::kMps ? kAllSessions : "";
  }
  bool is_mps = std::any_of(grant->devices.begin(), grant->devices.end(), [this](uint32_t device) {
    return ModeOf(static_cast<int>(device)) == DeviceMode::kMps;
  });
  return is_mps ? std::string(kClaimPrefix) + grant->claim : "";
}

Status Supervisor::OpenMps() {
  if (!options_.modes.Any(DeviceMode::kMps)) {
    return {};
  }
  FARCALL_TRY(FindMpsControl().status());
  char folder[] = "/tmp/farcall-mps-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return {Code::kUnavailable, std::string("mode mps: no folder in /tmp: ") + strerror(errno)};
  }
  mps_ = std::make_unique<MpsService>(
      folder, [this](const std::string& group, const std::string& why) { EndMpsGroup(group, why); },
      [this](const std::string& group) { return SessionsOf(group); });
  return pool_.is_in_pool() ? Status() : EnsureMps(kAllSessions, nullptr);
}

// The defaults are what nobody of the group may exceed; a vGPU's own stands in its workers'
// environment.
Status Supervisor::EnsureMps(const std::string& group, const quota::ClaimGrant* grant) {
  MpsOptions options;
  Result<std::string> program = FindMpsControl();
  if (!program.ok()) {
    return program.status();
  }
  options.program = *program;
  options.user = geteuid();
  uint32_t limit = options_.compute.max_limit_milli;
  std::vector<int> devices;
  if (grant != nullptr) {
    devices.assign(grant->devices.begin(), grant->devices.end());
    limit = grant->limit_milli == 0 ? limit : std::min(limit, grant->limit_milli);
  } else {
    for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
      devices.push_back(static_cast<int>(i));
    }
  }
  options.default_percentage = limit < quota::kWholeMilli ? PercentOf(limit) : 0;
  for (int device : devices) {
    if (!options.devices.empty()) options.devices += ',';
    options.devices += UuidText(devices_.report.devices[static_cast<size_t>(device)].uuid);
    uint64_t most = grant != nullptr ? grant->memory_bytes : options_.memory_bytes;
    options.default_memory_bytes.push_back(most == 0 ? 0 : most + kMpsOverheadBytes);
  }
  return mps_->Ensure(group, std::move(options));
}

std::vector<std::string> Supervisor::MpsEnvironment(const Worker& worker,
                                                    const QuotaRequest& compute,
                                                    const quota::ClaimGrant* grant,
                                                    const Hello& hello) {
  if (worker.mps_group.empty()) {
    return {};
  }
  std::vector<std::string> environment = mps_->EnvironmentOf(worker.mps_group);
  uint32_t limit = options_.compute.max_limit_milli;
  limit = compute.limit_milli == 0 ? limit : std::min(limit, compute.limit_milli);
  if (limit < quota::kWholeMilli) {
    environment.push_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + std::to_string(PercentOf(limit)));
  }
  std::string memory;
  for (size_t i = 0; i < worker.devices.size(); ++i) {
    int device = worker.devices[i];
    uint64_t quota = grant != nullptr ? grant->memory_bytes
                                      : policy_.QuotaFor(hello.quota.memory_bytes, BytesOf(device));
    if (!memory.empty()) memory += ',';
    memory += std::to_string(i) + "=" + MpsDaemon::MemoryText(quota + kMpsOverheadBytes);
  }
  environment.push_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + memory);
  if (compute.priority == OnTheWire(quota::Priority::kLow)) {
    environment.emplace_back("CUDA_MPS_CLIENT_PRIORITY=1");  // below the others
  }
  return environment;
}

// A thread of the MPS service's.
void Supervisor::EndMpsGroup(const std::string& group, const std::string& why) {
  std::lock_guard lock(mutex_);
  size_t ended = 0;
  for (auto& [control, worker] : workers_) {
    if (worker->mps_group != group || worker->kill_at != Clock::time_point::max()) {
      continue;
    }
    worker->is_terminated = true;  // there is no server to do it
    EndSession(*worker, why);
    ++ended;
  }
  spdlog::error("{}: {}; its {} sessions end, its server is started anew", group, why, ended);
  audit_.Note("mps_group_ended", {{"group", group}, {"why", why}, {"sessions", ended}});
}

size_t Supervisor::SessionsOf(const std::string& group) {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [&group](const auto& worker) { return worker.second->mps_group == group; }));
}

// A client of MPS that is killed amid a kernel may take its group along: the daemon ends it first.
void Supervisor::Kill(Worker& worker) {
  constexpr std::chrono::seconds kPatience(2);
  if (!worker.mps_group.empty() && !worker.is_terminated) {
    worker.is_terminated = true;
    worker.kill_at = Clock::now() + kPatience;
    return mps_->Terminate(worker.mps_group, worker.process.pid);
  }
  KillProcess(worker.process);
}

}  // namespace farcall::server
