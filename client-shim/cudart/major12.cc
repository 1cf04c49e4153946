// SPDX-License-Identifier: Apache-2.0
// What libcudart.so.12 has under names that mean something else today: the headers here declare the
// new meaning, so the old one is defined under a name of ours and exported under its own.
#include <cstring>

#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/device.h"
#include "generated/cudart/hand.h"

using namespace farcall::cudart;

#define CUDART_OLD(name) extern "C" __attribute__((visibility("default"))) cudaError_t Old_##name

namespace {

// cudaDeviceProp of CUDA 12. Up to reservedSharedMemPerBlock it is also that of CUDA 11, which
// cudaGetDeviceProperties fills.
struct DeviceProp12 {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory;
  int computeMode, maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2];
  int maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3];
  int maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3];
  int maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
  int asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize;
  int persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported;
  int globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
  int hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess;
  int concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem;
  int cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
  int unifiedFunctionPointers, reserved[63];
};
static_assert(sizeof(DeviceProp12) == 1032);
static_assert(offsetof(DeviceProp12, hostRegisterSupported) == 728);

// Runs of fields that both majors have in the same order, from the first named to just before the
// second.
#define FARCALL_RUN(first, last)                                                      \
  static_assert(offsetof(DeviceProp12, last) - offsetof(DeviceProp12, first) ==       \
                offsetof(cudaDeviceProp, last) - offsetof(cudaDeviceProp, first));    \
  std::memcpy(reinterpret_cast<char*>(to) + offsetof(DeviceProp12, first),            \
              reinterpret_cast<const char*>(&from) + offsetof(cudaDeviceProp, first), \
              offsetof(DeviceProp12, last) - offsetof(DeviceProp12, first) + sizeof(to->last))

void Convert(const cudaDeviceProp& from, DeviceProp12* to) {
  FARCALL_RUN(name, maxGridSize);
  FARCALL_RUN(totalConstMem, texturePitchAlignment);
  to->multiProcessorCount = from.multiProcessorCount;
  FARCALL_RUN(integrated, canMapHostMemory);
  FARCALL_RUN(maxTexture1D, maxTexture1DMipmap);
  FARCALL_RUN(maxTexture2D, maxSurfaceCubemapLayered);
  FARCALL_RUN(surfaceAlignment, unifiedAddressing);
  FARCALL_RUN(memoryBusWidth, localL1CacheSupported);
  FARCALL_RUN(sharedMemPerMultiprocessor, hostNativeAtomicSupported);
  FARCALL_RUN(pageableMemoryAccess, cooperativeLaunch);
  FARCALL_RUN(sharedMemPerBlockOptin, accessPolicyMaxWindowSize);
  FARCALL_RUN(reservedSharedMemPerBlock, unifiedFunctionPointers);
}

cudaError_t Properties(DeviceProp12* to, int device) {
  if (to == nullptr) return cudaErrorInvalidValue;
  cudaDeviceProp from;
  if (cudaError_t error = Call_cudaGetDeviceProperties(&from, device); error != cudaSuccess)
    return error;
  std::memset(to, 0, sizeof(*to));
  Convert(from, to);
  // Those that CUDA 13 no longer tells.
  const struct {
    CUdevice_attribute attribute;
    int* field;
  } gone[] = {
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &to->clockRate},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, &to->deviceOverlap},
      {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &to->kernelExecTimeoutEnabled},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &to->computeMode},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, &to->maxTexture1DLinear},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &to->memoryClockRate},
      {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
       &to->singleToDoublePrecisionPerfRatio},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, &to->cooperativeMultiDeviceLaunch},
  };
  for (const auto& row : gone)
    if (g_driver.cuDeviceGetAttribute(row.field, row.attribute, device) != CUDA_SUCCESS)
      *row.field = 0;
  return cudaSuccess;
}

CUmemLocation LocationOf(int device) {
  CUmemLocation location = {};
  location.type =
      device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

cudaError_t Prefetch(const void* address, size_t bytes, int device, cudaStream_t stream) {
  return Enter<Before::kContext>([&] {
    return Lower(g_driver.cuMemPrefetchAsync_v2, address, bytes, LocationOf(device), 0, stream);
  });
}

// Which of a batch failed is told no more: that it may be any is what SIZE_MAX says.
cudaError_t CopyBatch(void** dsts, void** srcs, size_t* sizes, size_t count,
                      cudaMemcpyAttributes* attributes, size_t* indices, size_t number,
                      size_t* failed, cudaStream_t stream) {
  return Enter<Before::kContext>([&] {
    CUresult result = Lower(g_driver.cuMemcpyBatchAsync_v2, dsts, srcs, sizes, count, attributes,
                            indices, number, stream);
    if (result != CUDA_SUCCESS && failed != nullptr) *failed = SIZE_MAX;
    return result;
  });
}

cudaError_t CopyBoxes(size_t count, cudaMemcpy3DBatchOp* ops, size_t* failed,
                      unsigned long long flags, cudaStream_t stream) {
  return Enter<Before::kContext>([&] {
    CUresult result = Lower(g_driver.cuMemcpy3DBatchAsync_v2, count, ops, flags, stream);
    if (result != CUDA_SUCCESS && failed != nullptr) *failed = SIZE_MAX;
    return result;
  });
}

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                        unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                        size_t* count) {
  return Enter<Before::kContext>([&] {
    return Lower(g_driver.cuStreamGetCaptureInfo_v3, stream, status, id, graph, nodes, nullptr,
                 count);
  });
}

cudaError_t UpdateCapture(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
                          unsigned int flags) {
  return Enter<Before::kContext>([&] {
    return Lower(g_driver.cuStreamUpdateCaptureDependencies_v2, stream, nodes, nullptr, count,
                 flags);
  });
}

}  // namespace

CUDART_OLD(Properties2)(DeviceProp12* to, int device) asm("cudaGetDeviceProperties_v2");
CUDART_OLD(Properties2)(DeviceProp12* to, int device) {
  return Enter<Before::kDriver>([&] { return Properties(to, device); });
}

CUDART_OLD(Properties1)(void* to, int device) asm("cudaGetDeviceProperties");
CUDART_OLD(Properties1)(void* to, int device) {
  return Enter<Before::kDriver>([&] {
    DeviceProp12 made;
    cudaError_t error = to == nullptr ? cudaErrorInvalidValue : Properties(&made, device);
    if (error == cudaSuccess) std::memcpy(to, &made, offsetof(DeviceProp12, hostRegisterSupported));
    return error;
  });
}

CUDART_OLD(ChooseDevice)(int* device, const DeviceProp12* wanted) asm("cudaChooseDevice");
CUDART_OLD(ChooseDevice)(int* device, const DeviceProp12* wanted) {
  return Enter<Before::kDriver>([&] {
    if (wanted == nullptr) return cudaErrorInvalidValue;
    cudaDeviceProp as_now = {};
    as_now.major = wanted->major;
    as_now.minor = wanted->minor;
    as_now.totalGlobalMem = wanted->totalGlobalMem;
    as_now.multiProcessorCount = wanted->multiProcessorCount;
    as_now.sharedMemPerBlock = wanted->sharedMemPerBlock;
    return Call_cudaChooseDevice(device, &as_now);
  });
}

// Edges had no data of their own.
CUDART_OLD(AddDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
 size_t count) asm("cudaGraphAddDependencies");
CUDART_OLD(AddDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  return Enter<Before::kContext>(
      [&] { return Lower(g_driver.cuGraphAddDependencies_v2, graph, from, to, nullptr, count); });
}

CUDART_OLD(RemoveDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
 size_t count) asm("cudaGraphRemoveDependencies");
CUDART_OLD(RemoveDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  return Enter<Before::kContext>([&] {
    return Lower(g_driver.cuGraphRemoveDependencies_v2, graph, from, to, nullptr, count);
  });
}

CUDART_OLD(AddNode)
(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
 cudaGraphNodeParams* params) asm("cudaGraphAddNode");
CUDART_OLD(AddNode)
(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
 cudaGraphNodeParams* params) {
  return Enter<Before::kContext>(
      [&] { return Call_cudaGraphAddNode(node, graph, dependencies, nullptr, count, params); });
}

CUDART_OLD(GetEdges)
(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
 size_t* count) asm("cudaGraphGetEdges");
CUDART_OLD(GetEdges)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  return Enter<Before::kContext>(
      [&] { return Lower(g_driver.cuGraphGetEdges_v2, graph, from, to, nullptr, count); });
}

CUDART_OLD(GetDependencies)
(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) asm("cudaGraphNodeGetDependencies");
CUDART_OLD(GetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return Enter<Before::kContext>(
      [&] { return Lower(g_driver.cuGraphNodeGetDependencies_v2, node, nodes, nullptr, count); });
}

CUDART_OLD(GetDependentNodes)
(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) asm("cudaGraphNodeGetDependentNodes");
CUDART_OLD(GetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return Enter<Before::kContext>(
      [&] { return Lower(g_driver.cuGraphNodeGetDependentNodes_v2, node, nodes, nullptr, count); });
}

CUDART_OLD(MemAdvise)
(const void* address, size_t bytes, cudaMemoryAdvise advice, int device) asm("cudaMemAdvise");
CUDART_OLD(MemAdvise)(const void* address, size_t bytes, cudaMemoryAdvise advice, int device) {
  return Enter<Before::kContext>(
      [&] { return Lower(g_driver.cuMemAdvise_v2, address, bytes, advice, LocationOf(device)); });
}

CUDART_OLD(Prefetch)
(const void* address, size_t bytes, int device, cudaStream_t stream) asm("cudaMemPrefetchAsync");
CUDART_OLD(Prefetch)(const void* address, size_t bytes, int device, cudaStream_t stream) {
  return Prefetch(address, bytes, device, stream);
}

CUDART_OLD(PrefetchOwn)
(const void* address, size_t bytes, int device,
 cudaStream_t stream) asm("cudaMemPrefetchAsync_ptsz");
CUDART_OLD(PrefetchOwn)(const void* address, size_t bytes, int device, cudaStream_t stream) {
  return Prefetch(address, bytes, device, PerThread(stream));
}

CUDART_OLD(CopyBatch)
(void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes,
 size_t* indices, size_t number, size_t* failed, cudaStream_t stream) asm("cudaMemcpyBatchAsync");
CUDART_OLD(CopyBatch)
(void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes,
 size_t* indices, size_t number, size_t* failed, cudaStream_t stream) {
  return CopyBatch(dsts, srcs, sizes, count, attributes, indices, number, failed, stream);
}

CUDART_OLD(CopyBatchOwn)
(void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes,
 size_t* indices, size_t number, size_t* failed,
 cudaStream_t stream) asm("cudaMemcpyBatchAsync_ptsz");
CUDART_OLD(CopyBatchOwn)
(void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes,
 size_t* indices, size_t number, size_t* failed, cudaStream_t stream) {
  return CopyBatch(dsts, srcs, sizes, count, attributes, indices, number, failed,
                   PerThread(stream));
}

CUDART_OLD(CopyBoxes)
(size_t count, cudaMemcpy3DBatchOp* ops, size_t* failed, unsigned long long flags,
 cudaStream_t stream) asm("cudaMemcpy3DBatchAsync");
CUDART_OLD(CopyBoxes)
(size_t count, cudaMemcpy3DBatchOp* ops, size_t* failed, unsigned long long flags,
 cudaStream_t stream) {
  return CopyBoxes(count, ops, failed, flags, stream);
}

CUDART_OLD(CopyBoxesOwn)
(size_t count, cudaMemcpy3DBatchOp* ops, size_t* failed, unsigned long long flags,
 cudaStream_t stream) asm("cudaMemcpy3DBatchAsync_ptsz");
CUDART_OLD(CopyBoxesOwn)
(size_t count, cudaMemcpy3DBatchOp* ops, size_t* failed, unsigned long long flags,
 cudaStream_t stream) {
  return CopyBoxes(count, ops, failed, flags, PerThread(stream));
}

CUDART_OLD(CaptureInfo1)
(cudaStream_t stream, cudaStreamCaptureStatus* status,
 unsigned long long* id) asm("cudaStreamGetCaptureInfo");
CUDART_OLD(CaptureInfo1)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return CaptureInfo(stream, status, id, nullptr, nullptr, nullptr);
}

CUDART_OLD(CaptureInfo1Own)
(cudaStream_t stream, cudaStreamCaptureStatus* status,
 unsigned long long* id) asm("cudaStreamGetCaptureInfo_ptsz");
CUDART_OLD(CaptureInfo1Own)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return CaptureInfo(PerThread(stream), status, id, nullptr, nullptr, nullptr);
}

CUDART_OLD(CaptureInfo2)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
 const cudaGraphNode_t** nodes, size_t* count) asm("cudaStreamGetCaptureInfo_v2");
CUDART_OLD(CaptureInfo2)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
 const cudaGraphNode_t** nodes, size_t* count) {
  return CaptureInfo(stream, status, id, graph, nodes, count);
}

CUDART_OLD(CaptureInfo2Own)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
 const cudaGraphNode_t** nodes, size_t* count) asm("cudaStreamGetCaptureInfo_v2_ptsz");
CUDART_OLD(CaptureInfo2Own)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
 const cudaGraphNode_t** nodes, size_t* count) {
  return CaptureInfo(PerThread(stream), status, id, graph, nodes, count);
}

CUDART_OLD(UpdateCapture)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
 unsigned int flags) asm("cudaStreamUpdateCaptureDependencies");
CUDART_OLD(UpdateCapture)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned int flags) {
  return UpdateCapture(stream, nodes, count, flags);
}

CUDART_OLD(UpdateCaptureOwn)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
 unsigned int flags) asm("cudaStreamUpdateCaptureDependencies_ptsz");
CUDART_OLD(UpdateCaptureOwn)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned int flags) {
  return UpdateCapture(PerThread(stream), nodes, count, flags);
}

// Once narrowed for devices without doubles; since CUDA 2.3 there was nothing to do.
extern "C" __attribute__((visibility("default"))) cudaError_t cudaSetDoubleForDevice(double* d) {
  return Keep(d == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
extern "C" __attribute__((visibility("default"))) cudaError_t cudaSetDoubleForHost(double* d) {
  return Keep(d == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
