// SPDX-License-Identifier: Apache-2.0
// cudaGetDeviceProperties: the driver's attributes under the runtime's names.
#include <cstring>

#include "client-shim/cudart/device.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

// Where an attribute goes. `wide`: a size_t; the others are ints.
struct Field {
  CUdevice_attribute attribute;
  size_t offset;
  bool wide;
};

#define FARCALL_FIELD(attribute, member)                               \
  {                                                                    \
    CU_DEVICE_ATTRIBUTE_##attribute, offsetof(cudaDeviceProp, member), \
        sizeof(cudaDeviceProp::member) == sizeof(size_t)               \
  }
#define FARCALL_ELEMENT(attribute, member, index)                                              \
  {                                                                                            \
    CU_DEVICE_ATTRIBUTE_##attribute, offsetof(cudaDeviceProp, member) + (index) * sizeof(int), \
        false                                                                                  \
  }

constexpr Field kFields[] = {
    FARCALL_FIELD(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    FARCALL_FIELD(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
    FARCALL_FIELD(WARP_SIZE, warpSize),
    FARCALL_FIELD(MAX_PITCH, memPitch),
    FARCALL_FIELD(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    FARCALL_ELEMENT(MAX_BLOCK_DIM_X, maxThreadsDim, 0),
    FARCALL_ELEMENT(MAX_BLOCK_DIM_Y, maxThreadsDim, 1),
    FARCALL_ELEMENT(MAX_BLOCK_DIM_Z, maxThreadsDim, 2),
    FARCALL_ELEMENT(MAX_GRID_DIM_X, maxGridSize, 0),
    FARCALL_ELEMENT(MAX_GRID_DIM_Y, maxGridSize, 1),
    FARCALL_ELEMENT(MAX_GRID_DIM_Z, maxGridSize, 2),
    FARCALL_FIELD(TOTAL_CONSTANT_MEMORY, totalConstMem),
    FARCALL_FIELD(COMPUTE_CAPABILITY_MAJOR, major),
    FARCALL_FIELD(COMPUTE_CAPABILITY_MINOR, minor),
    FARCALL_FIELD(TEXTURE_ALIGNMENT, textureAlignment),
    FARCALL_FIELD(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
    FARCALL_FIELD(MULTIPROCESSOR_COUNT, multiProcessorCount),
    FARCALL_FIELD(INTEGRATED, integrated),
    FARCALL_FIELD(CAN_MAP_HOST_MEMORY, canMapHostMemory),
    FARCALL_FIELD(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
    FARCALL_FIELD(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, maxTexture1DMipmap),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_WIDTH, maxTexture2D, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_HEIGHT, maxTexture2D, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, maxTexture2DMipmap, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, maxTexture2DMipmap, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, maxTexture2DLinear, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, maxTexture2DLinear, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LINEAR_PITCH, maxTexture2DLinear, 2),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_GATHER_WIDTH, maxTexture2DGather, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, maxTexture2DGather, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_WIDTH, maxTexture3D, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_HEIGHT, maxTexture3D, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_DEPTH, maxTexture3D, 2),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, maxTexture3DAlt, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, maxTexture3DAlt, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, maxTexture3DAlt, 2),
    FARCALL_FIELD(MAXIMUM_TEXTURECUBEMAP_WIDTH, maxTextureCubemap),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, maxTexture1DLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, maxTexture1DLayered, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, maxTexture2DLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, maxTexture2DLayered, 1),
    FARCALL_ELEMENT(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, maxTexture2DLayered, 2),
    FARCALL_ELEMENT(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, maxTextureCubemapLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, maxTextureCubemapLayered, 1),
    FARCALL_FIELD(MAXIMUM_SURFACE1D_WIDTH, maxSurface1D),
    FARCALL_ELEMENT(MAXIMUM_SURFACE2D_WIDTH, maxSurface2D, 0),
    FARCALL_ELEMENT(MAXIMUM_SURFACE2D_HEIGHT, maxSurface2D, 1),
    FARCALL_ELEMENT(MAXIMUM_SURFACE3D_WIDTH, maxSurface3D, 0),
    FARCALL_ELEMENT(MAXIMUM_SURFACE3D_HEIGHT, maxSurface3D, 1),
    FARCALL_ELEMENT(MAXIMUM_SURFACE3D_DEPTH, maxSurface3D, 2),
    FARCALL_ELEMENT(MAXIMUM_SURFACE1D_LAYERED_WIDTH, maxSurface1DLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_SURFACE1D_LAYERED_LAYERS, maxSurface1DLayered, 1),
    FARCALL_ELEMENT(MAXIMUM_SURFACE2D_LAYERED_WIDTH, maxSurface2DLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, maxSurface2DLayered, 1),
    FARCALL_ELEMENT(MAXIMUM_SURFACE2D_LAYERED_LAYERS, maxSurface2DLayered, 2),
    FARCALL_FIELD(MAXIMUM_SURFACECUBEMAP_WIDTH, maxSurfaceCubemap),
    FARCALL_ELEMENT(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, maxSurfaceCubemapLayered, 0),
    FARCALL_ELEMENT(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, maxSurfaceCubemapLayered, 1),
    FARCALL_FIELD(SURFACE_ALIGNMENT, surfaceAlignment),
    FARCALL_FIELD(CONCURRENT_KERNELS, concurrentKernels),
    FARCALL_FIELD(ECC_ENABLED, ECCEnabled),
    FARCALL_FIELD(PCI_BUS_ID, pciBusID),
    FARCALL_FIELD(PCI_DEVICE_ID, pciDeviceID),
    FARCALL_FIELD(PCI_DOMAIN_ID, pciDomainID),
    FARCALL_FIELD(TCC_DRIVER, tccDriver),
    FARCALL_FIELD(ASYNC_ENGINE_COUNT, asyncEngineCount),
    FARCALL_FIELD(UNIFIED_ADDRESSING, unifiedAddressing),
    FARCALL_FIELD(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
    FARCALL_FIELD(L2_CACHE_SIZE, l2CacheSize),
    FARCALL_FIELD(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
    FARCALL_FIELD(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    FARCALL_FIELD(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
    FARCALL_FIELD(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
    FARCALL_FIELD(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
    FARCALL_FIELD(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
    FARCALL_FIELD(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
    FARCALL_FIELD(MANAGED_MEMORY, managedMemory),
    FARCALL_FIELD(MULTI_GPU_BOARD, isMultiGpuBoard),
    FARCALL_FIELD(MULTI_GPU_BOARD_GROUP_ID, multiGpuBoardGroupID),
    FARCALL_FIELD(HOST_NATIVE_ATOMIC_SUPPORTED, hostNativeAtomicSupported),
    FARCALL_FIELD(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
    FARCALL_FIELD(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
    FARCALL_FIELD(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
    FARCALL_FIELD(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
    FARCALL_FIELD(COOPERATIVE_LAUNCH, cooperativeLaunch),
    FARCALL_FIELD(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
    FARCALL_FIELD(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                  pageableMemoryAccessUsesHostPageTables),
    FARCALL_FIELD(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, directManagedMemAccessFromHost),
    FARCALL_FIELD(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
    FARCALL_FIELD(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
    FARCALL_FIELD(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
    FARCALL_FIELD(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
    FARCALL_FIELD(SPARSE_CUDA_ARRAY_SUPPORTED, sparseCudaArraySupported),
    FARCALL_FIELD(READ_ONLY_HOST_REGISTER_SUPPORTED, hostRegisterReadOnlySupported),
    FARCALL_FIELD(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, timelineSemaphoreInteropSupported),
    FARCALL_FIELD(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
    FARCALL_FIELD(GPU_DIRECT_RDMA_SUPPORTED, gpuDirectRDMASupported),
    FARCALL_FIELD(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, gpuDirectRDMAFlushWritesOptions),
    FARCALL_FIELD(GPU_DIRECT_RDMA_WRITES_ORDERING, gpuDirectRDMAWritesOrdering),
    FARCALL_FIELD(MEMPOOL_SUPPORTED_HANDLE_TYPES, memoryPoolSupportedHandleTypes),
    FARCALL_FIELD(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferredMappingCudaArraySupported),
    FARCALL_FIELD(IPC_EVENT_SUPPORTED, ipcEventSupported),
    FARCALL_FIELD(CLUSTER_LAUNCH, clusterLaunch),
    FARCALL_FIELD(UNIFIED_FUNCTION_POINTERS, unifiedFunctionPointers),
    FARCALL_FIELD(NUMA_CONFIG, deviceNumaConfig),
    FARCALL_FIELD(NUMA_ID, deviceNumaId),
    FARCALL_FIELD(MPS_ENABLED, mpsEnabled),
    FARCALL_FIELD(HOST_NUMA_ID, hostNumaId),
    FARCALL_FIELD(GPU_PCI_DEVICE_ID, gpuPciDeviceID),
    FARCALL_FIELD(GPU_PCI_SUBSYSTEM_ID, gpuPciSubsystemID),
    FARCALL_FIELD(HOST_NUMA_MULTINODE_IPC_SUPPORTED, hostNumaMultinodeIpcSupported),
};

// One property of the wish is met: scored in the order of the header, a later one counts less.
unsigned Score(const cudaDeviceProp& has, const cudaDeviceProp& wanted) {
  unsigned score = 0;
  auto add = [&](bool met) { score = score * 2 + (met ? 1 : 0); };
  add(has.major == wanted.major);
  add(has.minor >= wanted.minor);
  add(has.totalGlobalMem >= wanted.totalGlobalMem);
  add(has.multiProcessorCount >= wanted.multiProcessorCount);
  add(has.sharedMemPerBlock >= wanted.sharedMemPerBlock);
  return score;
}

}  // namespace

cudaError_t Call_cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return cudaErrorInvalidValue;
  if (device < 0 || device >= DeviceCount()) return cudaErrorInvalidDevice;
  cudaDeviceProp made = {};
  CUresult result = g_driver.cuDeviceGetName(made.name, sizeof(made.name), device);
  if (result == CUDA_SUCCESS)
    result = g_driver.cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(&made.uuid), device);
  if (result == CUDA_SUCCESS) result = g_driver.cuDeviceTotalMem_v2(&made.totalGlobalMem, device);
  for (const Field& field : kFields) {
    int value = 0;
    if (result == CUDA_SUCCESS) {
      result = g_driver.cuDeviceGetAttribute(&value, field.attribute, device);
      // An older driver knows fewer: 0 says so.
      if (result == CUDA_ERROR_INVALID_VALUE) result = CUDA_SUCCESS;
    }
    char* to = reinterpret_cast<char*>(&made) + field.offset;
    const size_t wide = static_cast<size_t>(value);
    std::memcpy(to, field.wide ? static_cast<const void*>(&wide) : &value,
                field.wide ? sizeof(wide) : sizeof(value));
  }
  // The reserved tail stays as the application has it.
  if (result == CUDA_SUCCESS) std::memcpy(properties, &made, offsetof(cudaDeviceProp, reserved));
  return FromDriver(result);
}

cudaError_t Call_cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t error = NeedDriver(); error != cudaSuccess) return error;
  unsigned best = 0;
  *device = 0;
  for (int i = 0; i < DeviceCount(); ++i) {
    cudaDeviceProp has;
    if (cudaError_t error = Call_cudaGetDeviceProperties(&has, i); error != cudaSuccess)
      return error;
    if (unsigned score = Score(has, *wanted); i == 0 || score > best) best = score, *device = i;
  }
  return cudaSuccess;
}

}  // namespace farcall::cudart
