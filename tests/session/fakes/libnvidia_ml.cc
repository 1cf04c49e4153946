// SPDX-License-Identifier: Apache-2.0
// A FAKE libnvidia-ml.so.1 for tests of what a server does with NVML's answers. For mode mig: GPU 0
// has MIG on and the instances that $FAKE_MIG names, separated by commas, an empty name being a
// gap; GPU 1 has MIG off. By UUID GPU 0 is found whatever it is, and the processes on it are the
// lines "PID BYTES" of the file $FAKE_GPU_PROCESSES; without one it does not say.
#include <nvml.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

int g_gpus[2];  // their addresses are the handles
std::vector<std::string> g_instances;

int GpuOf(nvmlDevice_t device) {
  for (int i = 0; i < 2; ++i)
    if (static_cast<void*>(device) == &g_gpus[i]) return i;
  return -1;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() {
  const char* named = std::getenv("FAKE_MIG");
  std::string names = named == nullptr ? "" : named;
  g_instances.clear();
  for (size_t at = 0; at < names.size();) {
    size_t end = names.find(',', at);
    end = end == std::string::npos ? names.size() : end;
    g_instances.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(&g_gpus[index]);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  *current = *pending = GpuOf(device) == 0 ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned* count) {
  *count = GpuOf(device) == 0 ? 7 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, unsigned index,
                                                 nvmlDevice_t* instance) {
  if (index >= g_instances.size() || g_instances[index].empty()) return NVML_ERROR_NOT_FOUND;
  *instance = reinterpret_cast<nvmlDevice_t>(&g_instances[index]);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char*, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(0, device);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count,
                                                     nvmlProcessInfo_t* processes) {
  const char* path = std::getenv("FAKE_GPU_PROCESSES");
  if (path == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  std::ifstream file(path);
  unsigned found = 0;
  unsigned long long pid = 0, bytes = 0;
  while (file >> pid >> bytes) {
    if (found < *count) {
      processes[found] = {};
      processes[found].pid = static_cast<unsigned>(pid);
      processes[found].usedGpuMemory = bytes;
    }
    ++found;
  }
  bool fits = found <= *count;
  *count = found;
  return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned bytes) {
  int gpu = GpuOf(device);
  std::string text =
      gpu >= 0 ? "GPU-fake-" + std::to_string(gpu) : *reinterpret_cast<std::string*>(device);
  if (text.size() >= bytes) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(uuid, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

}  // extern "C"
