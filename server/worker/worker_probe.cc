// SPDX-License-Identifier: Apache-2.0
#include "server/worker/worker_probe.h"

#include <cstdlib>
#include <span>
#include <vector>

#include "proto/handshake.h"
#include "server/session/control.h"
#include "server/supervisor/device_library.h"
#include "server/supervisor/mig_devices.h"
#include "server/worker/worker.h"

namespace farcall::server {

int ProbeDevices(const std::string& path) {
  DriverApi api;
  ControlMessage answer;
  answer.type = ControlType::kProbe;
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
  answer.SetText(loaded.message());
  if (file >= 0) {
    (void)SendToSupervisor(kControlDescriptor, answer, {file});
  } else {
    (void)SendToSupervisor(kControlDescriptor, answer);
  }
  return loaded.ok() ? 0 : 1;
}

int ProbeMigDevices(const std::string& path) {
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  Result<std::vector<std::string>> found = MigDevices(path, gpus == nullptr ? "" : gpus);
  ControlMessage answer;
  answer.type = ControlType::kProbe;
  answer.SetText(found.status().message());
  if (!found.ok()) {
    (void)SendToSupervisor(kControlDescriptor, answer);
    return 1;
  }
  std::string text;
  for (const std::string& uuid : *found) {
    text += uuid + "\n";
  }
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-mig", {bytes.begin(), bytes.end()});
  (void)SendToSupervisor(kControlDescriptor, answer, {file});
  return 0;
}

}  // namespace farcall::server
