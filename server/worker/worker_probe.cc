// SPDX-License-Identifier: Apache-2.0
#include "server/worker/worker_probe.h"

#include <cstdlib>
#include <span>
#include <vector>

#include "proto/handshake.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/probe.h"
#include "server/supervisor/device_library.h"
#include "server/supervisor/mig_devices.h"
#include "server/worker/worker.h"

namespace farcall::server {

int ProbeDevices(const std::string& path) {
  DriverApi api;
  int file = -1;
  Status loaded = LoadDeviceLibrary(path, &api);
  if (loaded.ok()) {
    Result<DeviceReport> report = ReportDevices(api);
    loaded = report.status();
    if (report.ok()) {
      Welcome welcome;
      welcome.driver_version = report->driver_version;
      welcome.devices = report->devices;
      welcome.device_kind = report->skips_kernels ? "cpu-skip" : "";
      file = MakeMemoryFile("farcall-probe", Encode(welcome));
    }
  }
  const control::ProbeReport answer{.why = loaded.message()};
  if (file >= 0) {
    (void)control::SendToSupervisor(kControlDescriptor, answer, {file});
  } else {
    (void)control::SendToSupervisor(kControlDescriptor, answer);
  }
  return loaded.ok() ? 0 : 1;
}

int ProbeMigDevices(const std::string& path) {
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  Result<std::vector<std::string>> found = MigDevices(path, gpus == nullptr ? "" : gpus);
  const control::ProbeReport answer{.why = found.status().message()};
  if (!found.ok()) {
    (void)control::SendToSupervisor(kControlDescriptor, answer);
    return 1;
  }
  std::string text;
  for (const std::string& uuid : *found) {
    text += uuid + "\n";
  }
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-mig", {bytes.begin(), bytes.end()});
  (void)control::SendToSupervisor(kControlDescriptor, answer, {file});
  return 0;
}

}  // namespace farcall::server
