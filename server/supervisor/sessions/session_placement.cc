// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/session_placement.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "server/device/uuid_text.h"

namespace farcall::server {

uint64_t SessionPlacement::BytesOf(int device) const {
  return devices_.report.devices[static_cast<size_t>(device)].total_bytes;
}

std::vector<int> SessionPlacement::AllDevices() const {
  std::vector<int> devices(devices_.report.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<int> SessionPlacement::DevicesFor(const std::string& vgpu,
                                              const quota::ClaimGrant* grant) const {
  if (grant != nullptr) return {grant->devices.begin(), grant->devices.end()};
  if (options_.modes.Any(DeviceMode::kMig)) return {PickInstance(vgpu)};
  return AllDevices();
}

Status SessionPlacement::Check(const WorkerSession& session) const {
  if (options_.modes.Any(DeviceMode::kMig) && session.devices.size() != 1) {
    return {Code::kRefused, "mode mig: asked for " + std::to_string(session.devices.size()) +
                                " devices; a program sees one MIG instance"};
  }
  for (int device : session.devices)
    if ((ModeOf(device) == DeviceMode::kMps) != !session.mps_group.empty())
      return {Code::kRefused, "mode mps: of its devices some are in that mode and some are not"};
  return CheckExclusive(session);
}

Status SessionPlacement::CheckExclusive(const WorkerSession& session) const {
  for (int device : session.devices) {
    for (const auto& [control, other] : sessions_) {
      bool has_it =
          std::find(other->devices.begin(), other->devices.end(), device) != other->devices.end();
      if (ModeOf(device) == DeviceMode::kExclusive && has_it && other->vgpu != session.vgpu) {
        return {Code::kRefused,
                "device " + std::to_string(device) + " is exclusive: " + other->who + " has it"};
      }
    }
  }
  return {};
}

// That of the vGPU's other sessions, else the one with the fewest vGPUs.
int SessionPlacement::PickInstance(const std::string& vgpu) const {
  std::vector<std::set<std::string>> vgpus(devices_.report.devices.size());
  for (const auto& [control, session] : sessions_) {
    if (session->vgpu == vgpu) return session->devices.front();
    for (int device : session->devices) vgpus[static_cast<size_t>(device)].insert(session->vgpu);
  }
  auto least = std::min_element(vgpus.begin(), vgpus.end(),
                                [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return static_cast<int>(least - vgpus.begin());
}

std::string SessionPlacement::MpsGroupFor(const quota::ClaimGrant* grant) const {
  if (grant == nullptr) return ModeOf(0) == DeviceMode::kMps ? kAllSessions : "";
  bool is_mps = std::any_of(grant->devices.begin(), grant->devices.end(), [this](uint32_t device) {
    return ModeOf(static_cast<int>(device)) == DeviceMode::kMps;
  });
  return is_mps ? std::string(kClaimPrefix) + grant->claim : "";
}

std::string SessionPlacement::GpusOf(const WorkerSession& session) const {
  bool is_mps = !session.mps_group.empty();
  if (is_mps || !devices_.visible.empty()) {
    std::string names;
    for (int device : session.devices) {
      auto index = static_cast<size_t>(device);
      // A daemon's clients count its devices: only their UUIDs mean the same to both.
      names += (names.empty() ? "" : ",") +
               (is_mps ? UuidText(devices_.report.devices[index].uuid) : devices_.visible[index]);
    }
    return names;
  }
  if (session.claim.empty()) return options_.gpus;
  std::vector<std::string> listed;
  for (size_t at = 0; at <= options_.gpus.size() && !options_.gpus.empty();) {
    size_t comma = std::min(options_.gpus.find(',', at), options_.gpus.size());
    listed.push_back(options_.gpus.substr(at, comma - at));
    at = comma + 1;
  }
  std::string gpus;
  for (int device : session.devices) {
    auto index = static_cast<size_t>(device);
    gpus += (gpus.empty() ? "" : ",") +
            (index < listed.size() ? listed[index] : std::to_string(device));
  }
  return gpus;
}

std::string SessionPlacement::GpusOfAll(bool is_in_pool) const {
  WorkerSession session;
  session.claim = is_in_pool ? "any" : "";
  session.devices = AllDevices();
  return GpusOf(session);
}

}  // namespace farcall::server
