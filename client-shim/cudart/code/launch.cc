// SPDX-License-Identifier: Apache-2.0
// Launches. A triple chevron is a configuration pushed, popped by the stub, and __cudaLaunchKernel.
#include "client-shim/cudart/code/launch.h"

#include <vector>

#include "client-shim/cudart/code/registry.h"
#include "client-shim/cudart/convert.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

// Nested only where an argument's constructor launches: a few deep.
constexpr int kDeepest = 64;
thread_local constinit int t_depth = 0;
thread_local Configuration t_stack[kDeepest];

bool AnyZero(const dim3& d) {
  return d.x == 0 || d.y == 0 || d.z == 0;
}

cudaError_t Launch(CUkernel kernel, const dim3& grid, const dim3& block, void** args, size_t shared,
                   cudaStream_t stream) {
  if (AnyZero(grid) || AnyZero(block)) return cudaErrorInvalidConfiguration;
  if (shared > UINT32_MAX) return cudaErrorInvalidValue;
  CUresult result = g_driver.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), grid.x, grid.y,
                                            grid.z, block.x, block.y, block.z,
                                            static_cast<unsigned>(shared), stream, args, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return cudaSuccess;
  return LaunchError(result, grid, block);
}

}  // namespace

namespace {

bool Exceeds(const dim3& given, int first_attribute, CUdevice device) {
  const unsigned sides[] = {given.x, given.y, given.z};
  for (int i = 0; i < 3; ++i) {
    int most = 0;
    auto attribute = static_cast<CUdevice_attribute>(first_attribute + i);
    if (g_driver.cuDeviceGetAttribute(&most, attribute, device) == CUDA_SUCCESS &&
        sides[i] > static_cast<unsigned>(most))
      return true;
  }
  return false;
}

}  // namespace

// The runtime names a grid or block that the device cannot have apart from other bad values, such
// as too much shared memory.
cudaError_t LaunchError(CUresult result, const dim3& grid, const dim3& block) {
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result != CUDA_ERROR_INVALID_VALUE) return FromDriver(result);
  CUdevice device = 0;
  int most = 0;
  if (g_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return cudaErrorInvalidValue;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool is_crowded =
      g_driver.cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device) ==
          CUDA_SUCCESS &&
      threads > static_cast<uint64_t>(most);
  return is_crowded || Exceeds(grid, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device) ||
                 Exceeds(block, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device)
             ? cudaErrorInvalidConfiguration
             : cudaErrorInvalidValue;
}

cudaError_t Call_cudaLaunchKernel(const void* func, dim3 grid, dim3 block, void** args,
                                  size_t shared, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(func, &kernel); error != cudaSuccess) [[unlikely]]
    return error;
  return Launch(kernel, grid, block, args, shared, stream);
}

cudaError_t ToDriverConfig(const cudaLaunchConfig_t& from, Side side, CUlaunchConfig* to) {
  if (from.dynamicSmemBytes > UINT32_MAX) return cudaErrorInvalidValue;
  *to = {};
  to->gridDimX = from.gridDim.x, to->gridDimY = from.gridDim.y, to->gridDimZ = from.gridDim.z;
  to->blockDimX = from.blockDim.x, to->blockDimY = from.blockDim.y;
  to->blockDimZ = from.blockDim.z;
  to->sharedMemBytes = static_cast<unsigned>(from.dynamicSmemBytes);
  to->hStream = side == Side::kPerThread ? PerThread(from.stream) : from.stream;
  to->attrs = As<CUlaunchAttribute*>(from.attrs);
  to->numAttrs = from.numAttrs;
  return cudaSuccess;
}

cudaError_t Call_cudaLaunchKernelExC(Side side, const cudaLaunchConfig_t* config, const void* func,
                                     void** args) {
  if (config == nullptr) return cudaErrorInvalidValue;
  if (AnyZero(config->gridDim) || AnyZero(config->blockDim)) return cudaErrorInvalidConfiguration;
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(func, &kernel); error != cudaSuccess) return error;
  CUlaunchConfig driver_config;
  if (cudaError_t error = ToDriverConfig(*config, side, &driver_config); error != cudaSuccess)
    return error;
  CUresult result = g_driver.cuLaunchKernelEx(&driver_config, reinterpret_cast<CUfunction>(kernel),
                                              args, nullptr);
  return result == CUDA_SUCCESS ? cudaSuccess
                                : LaunchError(result, config->gridDim, config->blockDim);
}

cudaError_t Call_cudaLaunchCooperativeKernel(const void* func, dim3 grid, dim3 block, void** args,
                                             size_t shared, cudaStream_t stream) {
  if (AnyZero(grid) || AnyZero(block)) return cudaErrorInvalidConfiguration;
  if (shared > UINT32_MAX) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(func, &kernel); error != cudaSuccess) return error;
  CUresult result = g_driver.cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(kernel), grid.x,
                                                       grid.y, grid.z, block.x, block.y, block.z,
                                                       static_cast<unsigned>(shared), stream, args);
  return result == CUDA_SUCCESS ? cudaSuccess : LaunchError(result, grid, block);
}

}  // namespace farcall::cudart

using namespace farcall::cudart;

#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))

CUDART_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                   struct CUstream_st* stream) {
  if (t_depth == kDeepest) return Keep(cudaErrorInvalidConfiguration);
  t_stack[t_depth++] = {grid, block, shared, stream};
  return 0;
}

CUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                     void* stream) {
  if (t_depth == 0) return Keep(cudaErrorMissingConfiguration);
  const Configuration& top = t_stack[--t_depth];
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

CUDART_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                             void** args, size_t shared, cudaStream_t stream) {
  return Enter<Before::kContext>([&] {
    return kernel == nullptr ? cudaErrorInvalidDeviceFunction
                             : Launch(kernel, grid, block, args, shared, stream);
  });
}

CUDART_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                  void** args, size_t shared, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, args, shared, PerThread(stream));
}
