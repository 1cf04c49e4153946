// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/nvml/device_driver.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <string>

namespace farcall::cpu_nvml {

namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* slot) {
  *slot = reinterpret_cast<Function>(dlsym(library, name));
  return *slot != nullptr;
}

bool FindAll(void* library, DeviceDriver* driver) {
  return Find(library, "cuInit", &driver->Init) &&
         Find(library, "cuDriverGetVersion", &driver->DriverGetVersion) &&
         Find(library, "cuDeviceGetCount", &driver->DeviceGetCount) &&
         Find(library, "cuDeviceGetName", &driver->DeviceGetName) &&
         Find(library, "cuDeviceGetUuid_v2", &driver->DeviceGetUuid) &&
         Find(library, "cuDeviceTotalMem_v2", &driver->DeviceTotalMem) &&
         Find(library, "cuDeviceGetAttribute", &driver->DeviceGetAttribute) &&
         Find(library, "cuDevicePrimaryCtxRetain", &driver->PrimaryCtxRetain) &&
         Find(library, "cuDevicePrimaryCtxRelease_v2", &driver->PrimaryCtxRelease) &&
         Find(library, "cuDevicePrimaryCtxGetState", &driver->PrimaryCtxGetState) &&
         Find(library, "cuCtxPushCurrent_v2", &driver->CtxPushCurrent) &&
         Find(library, "cuCtxPopCurrent_v2", &driver->CtxPopCurrent) &&
         Find(library, "cuMemGetInfo_v2", &driver->MemGetInfo);
}

const DeviceDriver* Load() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&Load), &self) == 0) return nullptr;
  std::string path = self.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto driver = std::make_unique<DeviceDriver>();
  const bool works = FindAll(library, driver.get()) && driver->Init(0) == CUDA_SUCCESS;
  return works ? driver.release() : nullptr;
}

}  // namespace

const DeviceDriver* TheDeviceDriver() {
  static const DeviceDriver* driver = Load();
  return driver;
}

bool MemoryInfo(const DeviceDriver& driver, int device, size_t* free_bytes, size_t* total_bytes) {
  unsigned flags = 0;
  int active = 0;
  if (driver.DeviceTotalMem(total_bytes, device) != CUDA_SUCCESS) return false;
  *free_bytes = *total_bytes;
  if (driver.PrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS) return false;
  if (active == 0) return true;  // nothing has been put there, and nothing shall be by asking
  CUcontext context = nullptr;
  if (driver.PrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return false;
  bool known = false;
  if (driver.CtxPushCurrent(context) == CUDA_SUCCESS) {
    known = driver.MemGetInfo(free_bytes, total_bytes) == CUDA_SUCCESS;
    driver.CtxPopCurrent(&context);
  }
  driver.PrimaryCtxRelease(device);
  return known;
}

}  // namespace farcall::cpu_nvml
