// SPDX-License-Identifier: Apache-2.0
#include "server/worker/worker_probe.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <vector>

#include "proto/exec_arguments.h"
#include "proto/handshake/handshake.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/probe.h"
#include "server/device/device_library.h"
#include "server/nvml/mig_devices.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/system_calls.h"
#include "server/worker/sandbox/worker_files.h"
#include "server/worker/worker.h"
#include "toolkit/library_folders.h"

extern char** environ;

namespace farcall::server {

namespace {

constexpr char kModprobe[] = "/usr/bin/nvidia-modprobe";
constexpr char kControlMinor[] = "255";  // nvidiactl

void RunModprobe(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kModprobe);
  const std::vector<char*> pointers = ExecArguments(arguments);
  pid_t child = 0;
  if (posix_spawn(&child, kModprobe, nullptr, nullptr, pointers.data(), environ) == 0)
    waitpid(child, nullptr, 0);
}

// NVIDIA's libraries make the device nodes that are missing by starting nvidia-modprobe, which no
// sandbox lets them: it is started before, for a library that is not ours.
void MakeDeviceNodes(const std::string& library) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (IsOursByFolder(library) || fs::exists("/dev/nvidia-uvm", error) ||
      access(kModprobe, X_OK) != 0)
    return;
  RunModprobe({"-c", kControlMinor});  // and the module, which then says what there is
  std::vector<std::string> nodes;
  int minor = 0;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    (void)gpu;
    nodes.insert(nodes.end(), {"-c", std::to_string(minor++)});
  }
  RunModprobe(nodes);
  RunModprobe({"-u", "-c", "0"});
}

}  // namespace

Status ConfineProbe(const std::string& library) {
  MakeDeviceNodes(library);
  ForgetKernelCaches();
  SandboxRules rules;
  rules.files.readable = ReadableFiles(library);
  rules.is_only_tenant = true;
  rules.reports_calls = ReportsCalls();
  return EnterSandbox(rules);
}

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
  if (file >= 0)
    (void)control::SendToSupervisor(kControlDescriptor, answer, {file});
  else
    (void)control::SendToSupervisor(kControlDescriptor, answer);
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
  for (const std::string& uuid : *found) text += uuid + "\n";
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-mig", {bytes.begin(), bytes.end()});
  (void)control::SendToSupervisor(kControlDescriptor, answer, {file});
  return 0;
}

}  // namespace farcall::server
