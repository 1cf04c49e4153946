// SPDX-License-Identifier: Apache-2.0
#include "server/worker/process_memory.h"

#include <nvml.h>
#include <unistd.h>

#include "proto/status.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/nvml/nvml_symbol.h"
#include "server/worker/worker.h"

namespace farcall::server {

namespace {

// False: nobody asks any longer.
bool ReceiveQuestion(uint64_t* id) {
  control::ToProcessMemory question;
  std::vector<int> descriptors;
  bool heard = control::Receive(kControlDescriptor, &question, &descriptors).ok();
  for (int fd : descriptors) close(fd);
  *id = std::get<control::AskProcessMemory>(question).id;
  return heard;
}

struct Api {
  decltype(&::nvmlInit_v2) init = nullptr;
  decltype(&::nvmlDeviceGetHandleByUUID) by_uuid = nullptr;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes = nullptr;
};

bool Load(void* library, Api* api) {
  return FindNvml(library, "nvmlInit_v2", &api->init) &&
         FindNvml(library, "nvmlDeviceGetHandleByUUID", &api->by_uuid) &&
         FindNvml(library, "nvmlDeviceGetComputeRunningProcesses_v3", &api->processes);
}

// Empty: it can be asked.
std::string Open(const std::string& path, const std::vector<std::string>& uuids, Api* api,
                 std::vector<nvmlDevice_t>* devices) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !Load(library, api)) return path + " cannot be asked for processes";
  if (nvmlReturn_t status = api->init(); status != NVML_SUCCESS)
    return "nvmlInit_v2 failed with code " + std::to_string(status);
  for (const std::string& uuid : uuids) {
    nvmlDevice_t device = nullptr;
    std::string bare = uuid.substr(uuid.find('-') + 1);
    for (const char* kind : {"GPU-", "MIG-"})  // CUDA's UUID does not say which
      if (api->by_uuid((kind + bare).c_str(), &device) == NVML_SUCCESS) break;
    devices->push_back(device);
  }
  return "";
}

// Empty: all of them were told.
std::string TellDevice(const Api& api, int number, nvmlDevice_t device) {
  std::string where = "device " + std::to_string(number) + ": ";
  if (device == nullptr) return where + "NVML does not know it";
  std::vector<nvmlProcessInfo_t> processes(64);
  auto count = static_cast<unsigned>(processes.size());
  nvmlReturn_t status = api.processes(device, &count, processes.data());
  while (status == NVML_ERROR_INSUFFICIENT_SIZE) {
    processes.resize(count + 64);
    count = static_cast<unsigned>(processes.size());
    status = api.processes(device, &count, processes.data());
  }
  if (status != NVML_SUCCESS) return where + "code " + std::to_string(status);
  std::string why;
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].usedGpuMemory == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) {
      why = where + "it says nothing of their memory";
      continue;
    }
    const control::ProcessMemory told{
        .device = number, .pid = processes[i].pid, .bytes = processes[i].usedGpuMemory};
    if (!control::SendToSupervisor(kControlDescriptor, told).ok()) _exit(0);
  }
  return why;
}

}  // namespace

int TellProcessMemory(const std::string& nvml_path, const std::vector<std::string>& uuids) {
  Api api;
  std::vector<nvmlDevice_t> devices;
  std::string cannot = Open(nvml_path, uuids, &api, &devices);
  uint64_t id = 0;
  bool goes_on = true;
  while (goes_on && ReceiveQuestion(&id)) {
    std::string why = cannot;
    for (size_t i = 0; i < devices.size(); ++i) {
      std::string without = TellDevice(api, static_cast<int>(i), devices[i]);
      why = why.empty() ? without : why;
    }
    const control::ProcessMemoryEnd end{.id = id, .why_unknown = why};
    goes_on = control::SendToSupervisor(kControlDescriptor, end).ok();
  }
  return 0;
}

}  // namespace farcall::server
