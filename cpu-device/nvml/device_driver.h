// SPDX-License-Identifier: Apache-2.0
// The libcuda.so.1 in this library's folder, asked as any program would ask it.
#pragma once

#include <cuda.h>

namespace farcall::cpu_nvml {

struct DeviceDriver {
  decltype(&::cuInit) Init = nullptr;
  decltype(&::cuDriverGetVersion) DriverGetVersion = nullptr;
  decltype(&::cuDeviceGetCount) DeviceGetCount = nullptr;
  decltype(&::cuDeviceGetName) DeviceGetName = nullptr;
  decltype(&::cuDeviceGetUuid_v2) DeviceGetUuid = nullptr;
  decltype(&::cuDeviceTotalMem_v2) DeviceTotalMem = nullptr;
  decltype(&::cuDeviceGetAttribute) DeviceGetAttribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) PrimaryCtxRetain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease_v2) PrimaryCtxRelease = nullptr;
  decltype(&::cuDevicePrimaryCtxGetState) PrimaryCtxGetState = nullptr;
  decltype(&::cuCtxPushCurrent_v2) CtxPushCurrent = nullptr;
  decltype(&::cuCtxPopCurrent_v2) CtxPopCurrent = nullptr;
  decltype(&::cuMemGetInfo_v2) MemGetInfo = nullptr;
};

// Loaded and initialised at the first call; null if there is none, or it has no device.   Thread
// any
const DeviceDriver* TheDeviceDriver();

// What this process has of the device's memory: other processes have devices of their own.
bool MemoryInfo(const DeviceDriver& driver, int device, size_t* free_bytes, size_t* total_bytes);

}  // namespace farcall::cpu_nvml
