// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>

#include "driver.h"

namespace {

void Launches() {
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CHECK(D(cuModuleLoadData)(&module, kAddPtx));
  CHECK(D(cuModuleGetFunction)(&add, module, "add"));
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128;
  config.blockDimY = config.blockDimZ = 1;
  int clusters = 0, size = 0, blocks = 0, processors = 0;
  CHECK(D(cuOccupancyMaxActiveClusters)(&clusters, add, &config));
  CHECK(D(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, add, 128, 0));
  CHECK(D(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT(clusters == blocks * processors);
  CHECK(D(cuOccupancyMaxPotentialClusterSize)(&size, add, &config));
  EXPECT(size >= 1);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuOccupancyMaxActiveClusters)(nullptr, add, &config));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuOccupancyMaxActiveClusters)(&clusters, add, nullptr));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuOccupancyMaxActiveClusters)(&clusters, nullptr, &config));

  CUdeviceptr data = 0;
  CUstream stream = nullptr;
  CHECK(D(cuMemAlloc_v2)(&data, 128 * 4));
  CHECK(D(cuMemsetD32_v2)(data, 1, 128));
  CHECK(D(cuStreamCreate)(&stream, 0));
  unsigned value = 4;
  float unused = 0;
  void* parameters[] = {&data, &value, &unused};
  CUDA_LAUNCH_PARAMS launch{};
  launch.function = add;
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = 128;
  launch.blockDimY = launch.blockDimZ = 1;
  launch.hStream = stream;
  launch.kernelParams = parameters;
  CHECK(D(cuLaunchCooperativeKernelMultiDevice)(&launch, 1, 0));
  CHECK(D(cuStreamSynchronize)(stream));
  int result = 0;
  CHECK(D(cuMemcpyDtoH_v2)(&result, data, 4));
  EXPECT(result == 5);
  launch.hStream = nullptr;
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLaunchCooperativeKernelMultiDevice)(&launch, 1, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLaunchCooperativeKernelMultiDevice)(&launch, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLaunchCooperativeKernelMultiDevice)(&launch, 1, 64));
}

void Devices() {
  CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
  unsigned capabilities[2] = {7, 7}, mask = 0;
  char luid[8];
  CHECK(D(cuDeviceGetHostAtomicCapabilities)(capabilities, operations, 2, 0));
  EXPECT(capabilities[0] == 0 && capabilities[1] == 0);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceGetHostAtomicCapabilities)(nullptr, operations, 2, 0));
  CODE(CUDA_ERROR_INVALID_DEVICE,
       D(cuDeviceGetHostAtomicCapabilities)(capabilities, operations, 2, 9));
  operations[1] = static_cast<CUatomicOperation>(99);
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuDeviceGetHostAtomicCapabilities)(capabilities, operations, 2, 0));
  CODE(CUDA_ERROR_INVALID_DEVICE,
       D(cuDeviceGetP2PAtomicCapabilities)(capabilities, operations, 1, 0, 0));
  CODE(CUDA_ERROR_NOT_SUPPORTED, D(cuDeviceGetLuid)(luid, &mask, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceGetLuid)(nullptr, &mask, 0));
  CUexecAffinityParam affinity{};
  CODE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
       D(cuCtxGetExecAffinity)(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuCtxGetExecAffinity)(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
}

void Libraries() {
  CUlibrary library = nullptr;
  void* pointer = nullptr;
  CHECK(D(cuLibraryLoadData)(&library, kAddPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CODE(CUDA_ERROR_NOT_FOUND, D(cuLibraryGetUnifiedFunction)(&pointer, library, "add"));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLibraryGetUnifiedFunction)(nullptr, library, "add"));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLibraryGetUnifiedFunction)(&pointer, nullptr, "add"));
}

// CUDA 11's runtime makes a primary context current before it retains it, and asks for its device.
void Unheld() {
  CUdevice device = -1;
  CUcontext primary = nullptr;
  CHECK(D(cuDevicePrimaryCtxReset_v2)(0));
  CHECK(D(cuDevicePrimaryCtxRelease_v2)(0));
  CHECK(D(cuCtxGetDevice)(&device));
  EXPECT(device == 0);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuCtxGetDevice)(nullptr));
  CODE(CUDA_ERROR_CONTEXT_IS_DESTROYED, D(cuCtxSynchronize)());
  CHECK(D(cuDevicePrimaryCtxRetain)(&primary, 0));
  CHECK(D(cuCtxSynchronize)());
  CHECK(D(cuCtxSetCurrent)(nullptr));
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuCtxGetDevice)(&device));
  CHECK(D(cuCtxSetCurrent)(primary));
}

// A stream that a capture forked may go before the capture ends.
void CapturedStreams() {
  CUstream stream = nullptr, side = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUdeviceptr data = 0;
  CHECK(D(cuMemAlloc_v2)(&data, 4));
  CHECK(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(D(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  CHECK(D(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  for (bool joined : {true, false}) {
    CHECK(D(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
    CHECK(D(cuMemsetD32Async)(data, 1, 1, stream));
    CHECK(D(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(D(cuEventRecord)(fork, stream));
    CHECK(D(cuStreamWaitEvent)(side, fork, 0));
    CHECK(D(cuMemsetD32Async)(data, 7, 1, side));
    CHECK(D(cuEventRecord)(join, side));
    if (joined) CHECK(D(cuStreamWaitEvent)(stream, join, 0));
    CHECK(D(cuStreamDestroy_v2)(side));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CODE(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
         D(cuStreamEndCapture)(stream, &graph));
    if (joined) {
      CHECK(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));
      CHECK(D(cuGraphLaunch)(exec, stream));
      CHECK(D(cuGraphExecDestroy)(exec));
      CHECK(D(cuGraphDestroy)(graph));
    }
    CHECK(D(cuStreamSynchronize)(stream));
    unsigned value = 0;
    CHECK(D(cuMemcpyDtoH_v2)(&value, data, 4));
    EXPECT(value == (joined ? 7u : 1u));
  }
}

}  // namespace

void Odds() {
  CapturedStreams();
  Launches();
  Devices();
  Libraries();
  Unheld();
}
