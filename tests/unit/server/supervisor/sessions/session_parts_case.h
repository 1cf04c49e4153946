// SPDX-License-Identifier: Apache-2.0
// Sessions and devices for tests of the supervisor's parts, without a supervisor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/supervisor/sessions/session_table.h"

namespace farcall::server {

inline ProbedDevices DevicesOf(size_t count, const std::string& kind = "cpu",
                               uint64_t bytes = uint64_t{1} << 30) {
  ProbedDevices devices;
  devices.choice.kind = kind;
  for (size_t i = 0; i < count; ++i) {
    DeviceSnapshot device;
    device.name = "device " + std::to_string(i);
    device.uuid[0] = static_cast<uint8_t>(i + 1);
    device.total_bytes = bytes;
    device.peer_access.assign(count, uint8_t{1});
    device.peer_access[i] = 0;
    devices.report.devices.push_back(device);
  }
  return devices;
}

// `control`: stands for its descriptor, and is its number, too.
inline std::unique_ptr<WorkerSession> SessionOf(int control, const std::string& vgpu,
                                                const std::vector<int>& devices = {0}) {
  auto session = std::make_unique<WorkerSession>();
  session->process.control = control;
  session->session[0] = static_cast<uint8_t>(control);
  session->number = static_cast<uint64_t>(control);
  session->vgpu = vgpu;
  session->who = "session " + std::to_string(control);
  session->client_user = "ada";
  session->client_host = "lab";
  session->devices = devices;
  session->since = Clock::now();
  return session;
}

}  // namespace farcall::server
