// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/session_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/control/messages.h"

namespace farcall::server {

static_assert(control::kHostMemory == quota::kHostMemory);
static_assert(SessionTable::kNoDevice != quota::kHostMemory);

WorkerSession& SessionTable::Add(std::unique_ptr<WorkerSession> session) {
  std::unique_ptr<WorkerSession>& place = sessions_[session->process.control];
  place = std::move(session);
  return *place;
}

WorkerSession* SessionTable::Find(int control) const {
  auto found = sessions_.find(control);
  return found == sessions_.end() ? nullptr : found->second.get();
}

WorkerSession* SessionTable::Find(const SessionId& session) const {
  for (const auto& [control, each] : sessions_)
    if (each->session == session) return each.get();
  return nullptr;
}

bool SessionTable::HasVgpu(const std::string& vgpu) const {
  return std::any_of(begin(), end(), [&](const auto& each) { return each.second->vgpu == vgpu; });
}

bool SessionTable::IsOnlyVgpu(const std::string& vgpu) const {
  return std::all_of(begin(), end(), [&](const auto& each) { return each.second->vgpu == vgpu; });
}

size_t SessionTable::CountInGroup(const std::string& mps_group) const {
  return static_cast<size_t>(std::count_if(
      begin(), end(), [&](const auto& each) { return each.second->mps_group == mps_group; }));
}

size_t SessionTable::CountCounted(const std::string& counted) const {
  return static_cast<size_t>(std::count_if(
      begin(), end(), [&](const auto& each) { return each.second->counted == counted; }));
}

int SessionTable::HostDevice(const WorkerSession& session, int device) {
  if (device == quota::kHostMemory) return device;
  bool known = device >= 0 && static_cast<size_t>(device) < session.devices.size();
  return known ? session.devices[static_cast<size_t>(device)] : kNoDevice;
}

int SessionTable::SessionDevice(int control, int device) const {
  const WorkerSession* session = Find(control);
  if (session == nullptr || device == quota::kHostMemory) return device;
  const std::vector<int>& devices = session->devices;
  auto own = std::find(devices.begin(), devices.end(), device);
  return own != devices.end() ? static_cast<int>(own - devices.begin()) : kNoDevice;
}

std::optional<int> SessionTable::FindByProcess(int pid_fd) const {
  auto found = processes_.find(pid_fd);
  return found == processes_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace farcall::server
