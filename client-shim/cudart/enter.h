// SPDX-License-Identifier: Apache-2.0
// What every call needs before its body: the driver, and a context of the thread's device.
#pragma once

#include <atomic>

#include "client-shim/cudart/thread.h"
#include "generated/cudart/driver_api.h"

namespace farcall::cudart {

extern DriverApi g_driver;
extern std::atomic<bool> g_driver_ready;
extern std::atomic<unsigned> g_reset_epoch;  // grows with each cudaDeviceReset

enum class Before { kNone, kDriver, kContext };

// Loads libcuda.so.1 and initialises it; what fails is tried again by the next call.
cudaError_t StartDriver();
// Makes the primary context of the thread's device current.
cudaError_t BindContext();

inline cudaError_t NeedDriver() {
  if (g_driver_ready.load(std::memory_order_acquire)) [[likely]]
    return cudaSuccess;
  return StartDriver();
}

inline cudaError_t NeedContext() {
  if (cudaError_t error = NeedDriver(); error != cudaSuccess) [[unlikely]]
    return error;
  CUcontext current = nullptr;
  CUresult result = g_driver.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) [[unlikely]]
    return FromDriver(result);
  if (current != nullptr && t_thread.reset_epoch == g_reset_epoch.load(std::memory_order_relaxed))
      [[likely]]
    return cudaSuccess;
  return BindContext();
}

template <Before before, typename Body>
inline cudaError_t Enter(Body body) {
  if constexpr (before != Before::kNone) {
    cudaError_t ready = before == Before::kDriver ? NeedDriver() : NeedContext();
    if (ready != cudaSuccess) [[unlikely]]
      return Keep(ready);
  }
  return Keep(body());
}

}  // namespace farcall::cudart
