// SPDX-License-Identifier: Apache-2.0
#include "server/nvml/mig_devices.h"

#ifdef FARCALL_NVML
#include <dlfcn.h>
#include <nvml.h>

#include <algorithm>
#include <array>

#include "server/nvml/nvml_service.h"
#include "server/nvml/nvml_symbol.h"
#endif

namespace farcall::server {

#ifdef FARCALL_NVML

namespace {

struct MigApi {
  decltype(&::nvmlInit_v2) init = nullptr;
  decltype(&::nvmlDeviceGetCount_v2) count = nullptr;
  decltype(&::nvmlDeviceGetHandleByIndex_v2) by_index = nullptr;
  decltype(&::nvmlDeviceGetMigMode) mode = nullptr;
  decltype(&::nvmlDeviceGetMaxMigDeviceCount) most = nullptr;
  decltype(&::nvmlDeviceGetMigDeviceHandleByIndex) instance = nullptr;
  decltype(&::nvmlDeviceGetUUID) uuid = nullptr;
};

bool Load(void* library, MigApi* api) {
  return FindNvml(library, "nvmlInit_v2", &api->init) &&
         FindNvml(library, "nvmlDeviceGetCount_v2", &api->count) &&
         FindNvml(library, "nvmlDeviceGetHandleByIndex_v2", &api->by_index) &&
         FindNvml(library, "nvmlDeviceGetMigMode", &api->mode) &&
         FindNvml(library, "nvmlDeviceGetMaxMigDeviceCount", &api->most) &&
         FindNvml(library, "nvmlDeviceGetMigDeviceHandleByIndex", &api->instance) &&
         FindNvml(library, "nvmlDeviceGetUUID", &api->uuid);
}

std::string UuidOf(const MigApi& api, nvmlDevice_t device) {
  std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> text{};
  return api.uuid(device, text.data(), text.size()) == NVML_SUCCESS ? text.data() : "";
}

// A UUID may be written by its beginning, as CUDA takes it.
bool IsListed(const std::string& gpus, const std::string& number, const std::string& uuid,
              const std::string& instance) {
  if (gpus.empty()) return true;
  for (size_t at = 0; at <= gpus.size();) {
    size_t end = std::min(gpus.find(',', at), gpus.size());
    std::string entry = gpus.substr(at, end - at);
    bool is_uuid = entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0;
    if (entry == number ||
        (is_uuid && (uuid.rfind(entry, 0) == 0 || instance.rfind(entry, 0) == 0)))
      return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> MigDevices(const std::string& device_path,
                                            const std::string& gpus) {
  std::string path = NvmlPath(device_path);
  MigApi api;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !Load(library, &api))
    return Status(Code::kUnavailable, "mode mig: " + path + " cannot be asked for MIG instances");
  if (nvmlReturn_t status = api.init(); status != NVML_SUCCESS)
    return Status(Code::kUnavailable,
                  "mode mig: nvmlInit_v2 failed with code " + std::to_string(status));
  unsigned count = 0;
  api.count(&count);
  std::vector<std::string> found;
  unsigned without = 0;
  for (unsigned gpu = 0; gpu < count; ++gpu) {
    nvmlDevice_t device = nullptr;
    unsigned current = 0, pending = 0, most = 0;
    if (api.by_index(gpu, &device) != NVML_SUCCESS) continue;
    bool is_on = api.mode(device, &current, &pending) == NVML_SUCCESS &&
                 current == NVML_DEVICE_MIG_ENABLE && api.most(device, &most) == NVML_SUCCESS;
    without += is_on ? 0 : 1;
    for (unsigned i = 0; is_on && i < most; ++i) {
      nvmlDevice_t instance = nullptr;  // numbers have gaps where instances were removed
      if (api.instance(device, i, &instance) != NVML_SUCCESS) continue;
      std::string uuid = UuidOf(api, instance);
      if (!uuid.empty() && IsListed(gpus, std::to_string(gpu), UuidOf(api, device), uuid))
        found.push_back(uuid);
    }
  }
  if (found.empty())
    return Status(Code::kUnavailable,
                  "mode mig: no MIG instance on " + std::to_string(count) + " GPU(s), " +
                      std::to_string(without) +
                      " of them without MIG; nvidia-smi mig -cgi PROFILE -C makes some");
  return found;
}

#else

Result<std::vector<std::string>> MigDevices(const std::string&, const std::string&) {
  return Status(Code::kUnavailable, "mode mig: this build has no NVML (nvml.h was not there)");
}

#endif

}  // namespace farcall::server
