// SPDX-License-Identifier: Apache-2.0
// cudaSetDevice and its kin; primary contexts on first need.
#include "client-shim/cudart/device.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "client-shim/cudart/fork.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

namespace {

struct Primary {
  std::atomic<CUcontext> context{nullptr};
  std::atomic<bool> flags_given{false};  // by the application, which then reads them as they are
};

int g_count = 0;
Primary g_primary[kMaxDevices];
FARCALL_FORKED_MUTEX(g_retain);
std::vector<int>* g_valid = new std::vector<int>;  // cudaSetValidDevices; empty: all, from 0

bool Exists(int device) {
  return device >= 0 && device < g_count;
}

int ChosenDevice() {
  if (t_thread.device != kNoDevice) return t_thread.device;
  std::lock_guard<std::mutex> lock(*g_retain);
  return g_valid->empty() ? 0 : g_valid->front();
}

// Makes the device's primary context current, creating it at need.
cudaError_t Bind(int device) {
  CUcontext context = nullptr;
  if (cudaError_t error = PrimaryContext(device, &context); error != cudaSuccess) return error;
  CUresult result = g_driver.cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  t_thread.bound = context;
  t_thread.bound_device = device;
  t_thread.reset_epoch = g_reset_epoch.load(std::memory_order_relaxed);
  return cudaSuccess;
}

cudaError_t SetFlags(int device, unsigned int flags) {
  CUresult result = g_driver.cuDevicePrimaryCtxSetFlags_v2(device, flags);
  if (result == CUDA_SUCCESS) g_primary[device].flags_given.store(true);
  return FromDriver(result);
}

bool IsPrimary(CUcontext context) {
  return context == t_thread.bound ||
         std::any_of(g_primary, g_primary + g_count,
                     [&](const Primary& primary) { return primary.context.load() == context; });
}

}  // namespace

int DeviceCount() {
  return g_count;
}

cudaError_t FindDevices() {
  int count = 0;
  CUresult result = g_driver.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  if (count == 0) return cudaErrorNoDevice;
  g_count = std::min(count, kMaxDevices);
  return cudaSuccess;
}

cudaError_t PrimaryContext(int device, CUcontext* context) {
  *context = g_primary[device].context.load(std::memory_order_acquire);
  if (*context != nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> lock(*g_retain);
  *context = g_primary[device].context.load(std::memory_order_relaxed);
  if (*context != nullptr) return cudaSuccess;
  CUresult result = g_driver.cuDevicePrimaryCtxRetain(context, device);
  if (result == CUDA_SUCCESS) g_primary[device].context.store(*context, std::memory_order_release);
  return FromDriver(result);
}

cudaError_t BindContext() {
  CUcontext current = nullptr;
  CUresult result = g_driver.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  if (current != nullptr && !IsPrimary(current)) {
    // The application's own context: no reset of a primary one concerns it.
    t_thread.reset_epoch = g_reset_epoch.load(std::memory_order_relaxed);
    return cudaSuccess;
  }
  return Bind(current != nullptr && current == t_thread.bound ? t_thread.bound_device
                                                              : ChosenDevice());
}

cudaError_t CurrentDevice(int* device) {
  CUcontext current = nullptr;
  CUresult result = g_driver.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  if (current == nullptr) {
    *device = ChosenDevice();
    return cudaSuccess;
  }
  if (current == t_thread.bound) {
    *device = t_thread.bound_device;
    return cudaSuccess;
  }
  CUdevice found = 0;
  result = g_driver.cuCtxGetDevice(&found);
  *device = found;
  return FromDriver(result);
}

cudaError_t Call_cudaGetDeviceCount(int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = g_count;
  return cudaSuccess;
}

cudaError_t Call_cudaGetDevice(int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  return CurrentDevice(device);
}

cudaError_t Call_cudaSetDevice(int device) {
  if (!Exists(device)) return cudaErrorInvalidDevice;
  t_thread.device = device;
  return Bind(device);
}

cudaError_t Call_cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
  if (!Exists(device)) return cudaErrorInvalidDevice;
  if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
    if (cudaError_t error = SetFlags(device, device_flags); error != cudaSuccess) return error;
  }
  CUcontext context = nullptr;
  return PrimaryContext(device, &context);
}

cudaError_t Call_cudaSetDeviceFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0) return cudaErrorInvalidValue;
  int device = 0;
  if (cudaError_t error = CurrentDevice(&device); error != cudaSuccess) return error;
  return SetFlags(device, flags);
}

cudaError_t Call_cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return cudaErrorInvalidValue;
  int device = 0;
  if (cudaError_t error = CurrentDevice(&device); error != cudaSuccess) return error;
  int active = 0;
  CUresult result = g_driver.cuDevicePrimaryCtxGetState(device, flags, &active);
  // Mapping host memory needs no flag; it is told while no other was chosen.
  if (!g_primary[device].flags_given.load()) *flags |= cudaDeviceMapHost;
  return FromDriver(result);
}

cudaError_t Call_cudaDeviceReset() {
  int device = 0;
  if (cudaError_t error = CurrentDevice(&device); error != cudaSuccess) return error;
  std::lock_guard<std::mutex> lock(*g_retain);
  if (g_primary[device].context.exchange(nullptr) != nullptr)
    g_driver.cuDevicePrimaryCtxRelease_v2(device);
  CUresult result = g_driver.cuDevicePrimaryCtxReset_v2(device);
  g_reset_epoch.fetch_add(1);
  t_thread.device = device;
  if (t_thread.bound_device == device) {
    g_driver.cuCtxSetCurrent(nullptr);
    t_thread.bound = nullptr;
    t_thread.bound_device = kNoDevice;
  }
  return FromDriver(result);
}

cudaError_t Call_cudaSetValidDevices(int* devices, int count) {
  if (count < 0 || (count > 0 && devices == nullptr)) return cudaErrorInvalidValue;
  if (cudaError_t error = NeedDriver(); error != cudaSuccess) return error;
  if (count > g_count) return cudaErrorInvalidValue;
  std::vector<int> valid(devices, devices + count);
  if (!std::all_of(valid.begin(), valid.end(), Exists)) return cudaErrorInvalidDevice;
  std::lock_guard<std::mutex> lock(*g_retain);
  *g_valid = std::move(valid);
  return cudaSuccess;
}

}  // namespace farcall::cudart
