// SPDX-License-Identifier: Apache-2.0
// Occupancy by symbol.
#include "client-shim/cudart/code/launch.h"
#include "client-shim/cudart/code/registry.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

template <typename Ask>
cudaError_t WithFunction(const void* symbol, Ask ask) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(symbol, &kernel); error != cudaSuccess) return error;
  return FromDriver(ask(reinterpret_cast<CUfunction>(kernel)));
}

}  // namespace

cudaError_t Call_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                        const void* symbol,
                                                                        int threads, size_t shared,
                                                                        unsigned int flags) {
  return WithFunction(symbol, [&](CUfunction function) {
    return g_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                         shared, flags);
  });
}

cudaError_t Call_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* symbol,
                                                               int threads, size_t shared) {
  return Call_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, symbol, threads,
                                                                     shared, 0);
}

cudaError_t Call_cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* symbol,
                                                           int blocks, int threads) {
  return WithFunction(symbol, [&](CUfunction function) {
    return g_driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads);
  });
}

cudaError_t Call_cudaOccupancyMaxPotentialClusterSize(int* size, const void* symbol,
                                                      const cudaLaunchConfig_t* config) {
  if (config == nullptr) return cudaErrorInvalidValue;
  CUlaunchConfig driver_config;
  if (cudaError_t error = ToDriverConfig(*config, Side::kLegacy, &driver_config);
      error != cudaSuccess)
    return error;
  return WithFunction(symbol, [&](CUfunction function) {
    return g_driver.cuOccupancyMaxPotentialClusterSize(size, function, &driver_config);
  });
}

cudaError_t Call_cudaOccupancyMaxActiveClusters(int* clusters, const void* symbol,
                                                const cudaLaunchConfig_t* config) {
  if (config == nullptr) return cudaErrorInvalidValue;
  CUlaunchConfig driver_config;
  if (cudaError_t error = ToDriverConfig(*config, Side::kLegacy, &driver_config);
      error != cudaSuccess)
    return error;
  return WithFunction(symbol, [&](CUfunction function) {
    return g_driver.cuOccupancyMaxActiveClusters(clusters, function, &driver_config);
  });
}

}  // namespace farcall::cudart
