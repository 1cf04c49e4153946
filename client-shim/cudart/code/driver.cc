// SPDX-License-Identifier: Apache-2.0
// Loads the driver: libcuda.so.1 by name, as any program would find it.
#include <dlfcn.h>

#include <mutex>

#include "client-shim/cudart/code/libdevice.h"
#include "client-shim/cudart/device.h"
#include "client-shim/cudart/fork.h"
#include "client-shim/cudart/refuse.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

DriverApi g_driver;
std::atomic<bool> g_driver_ready{false};
std::atomic<unsigned> g_reset_epoch{0};

namespace {

FARCALL_FORKED_MUTEX(g_start);
bool g_loaded = false;

cudaError_t Load() {
  if (g_loaded) return cudaSuccess;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static int said;
  if (library == nullptr) {
    SayOnce("no libcuda.so.1:", dlerror(), &said);
    return cudaErrorInsufficientDriver;
  }
  if (!FillDriverApi(library, &g_driver)) {
    SayOnce("libcuda.so.1", "has no cuInit", &said);
    return cudaErrorInsufficientDriver;
  }
  g_loaded = true;
  return cudaSuccess;
}

cudaError_t Start() {
  std::lock_guard<std::mutex> lock(*g_start);
  if (g_driver_ready.load(std::memory_order_relaxed)) return cudaSuccess;
  if (cudaError_t error = Load(); error != cudaSuccess) return error;
  CUresult result = g_driver.cuInit(0);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  if (cudaError_t error = FindDevices(); error != cudaSuccess) return error;
  g_driver_ready.store(true, std::memory_order_release);
  return cudaSuccess;
}

}  // namespace

cudaError_t StartDriver() {
  cudaError_t error = Start();
  if (error == cudaSuccess) OfferLibdevice();
  return error;
}

cudaError_t Call_cudaDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = 0;
  std::lock_guard<std::mutex> lock(*g_start);
  if (Load() != cudaSuccess) return cudaSuccess;  // documented: 0 without a driver
  return FromDriver(g_driver.cuDriverGetVersion(version));
}

cudaError_t Call_cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = FARCALL_CUDART_VERSION;
  OfferLibdevice();  // of the runtime XLA's platform asks this alone before it compiles
  return cudaSuccess;
}

}  // namespace farcall::cudart
