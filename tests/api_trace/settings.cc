// SPDX-License-Identifier: Apache-2.0
// Rarely asked questions to devices, settings of contexts, older names, wrong contexts.
#include "tests/api_trace/trace.h"

namespace {

void TraceQuestions() {
  size_t width = 0;
  int value = -1;
  T("", cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 4u, 0);
  V("some", "%d", width > 0);
  T("null", cuDeviceGetTexture1DLinearMaxWidth, nullptr, CU_AD_FORMAT_FLOAT, 4u, 0);
  T("bad device", cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 4u, 7);
  T("five channels", cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 5u, 0);
  T("", cuDeviceGetExecAffinitySupport, &value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
  V("value", "%d", value);
  T("null", cuDeviceGetExecAffinitySupport, nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
  T("bad device", cuDeviceGetExecAffinitySupport, &value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 7);
  T("bad type", cuDeviceGetExecAffinitySupport, &value, static_cast<CUexecAffinityType>(9), 0);
  CUuuid uuid{};
  T("null", cuDeviceGetUuid, nullptr, 0);
  T("bad device", cuDeviceGetUuid, &uuid, 7);
  for (int which : {1, 2, 3, 4, 5}) {
    char note[32];
    std::snprintf(note, sizeof(note), "self %d", which);
    T(note, cuDeviceGetP2PAttribute, &value, static_cast<CUdevice_P2PAttribute>(which), 0, 0);
  }
  T("bad device", cuDeviceGetP2PAttribute, &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 7);
  T("null", cuDeviceCanAccessPeer, nullptr, 0, 0);
  T("null name", cuDeviceGetByPCIBusId, &value, nullptr);
  T("null", cuDeviceGetPCIBusId, nullptr, 32, 0);
  char text[8];
  T("short", cuDeviceGetPCIBusId, text, 8, 0);
  T("null", cuDeviceGetProperties, nullptr, 0);
  T("null", cuDeviceComputeCapability, nullptr, &value, 0);
  T("null", cuDeviceTotalMem_v2, nullptr, 0);
  T("null", cuGetErrorName, CUDA_SUCCESS, nullptr);
  T("null", cuGetErrorString, CUDA_SUCCESS, nullptr);
  const void* table = nullptr;
  CUuuid unknown{{1, 2, 3, 4}};
  T("unknown", cuGetExportTable, &table, &unknown);
  T("null", cuGetExportTable, nullptr, &unknown);
  T("null id", cuGetExportTable, &table, nullptr);
  void* function = nullptr;
  T("", cuGetProcAddress, "cuMemAlloc", &function, 12000, 0);
  V("found", "%d", function != nullptr);
  T("unknown", cuGetProcAddress, "cuNoSuchThing", &function, 12000, 0);
  T("null name", cuGetProcAddress, nullptr, &function, 12000, 0);
  T("null status", cuGetProcAddress_v2, "cuMemAlloc", &function, 12000, 0, nullptr);
  CUdriverProcAddressQueryResult status{};
  T("bad flags", cuGetProcAddress_v2, "cuMemAlloc", &function, 12000, 64, &status);
  T("null", cuModuleGetLoadingMode, nullptr);
}

void TraceContextSettings() {
  unsigned flags = 0;
  CUsharedconfig shared{};
  CUfunc_cache cache{};
  int least = 0;
  T("", cuCtxGetSharedMemConfig, &shared);
  T("", cuCtxSetSharedMemConfig, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE);
  T("bad", cuCtxSetSharedMemConfig, static_cast<CUsharedconfig>(9));
  T("null", cuCtxGetSharedMemConfig, nullptr);
  T("bad", cuCtxSetCacheConfig, static_cast<CUfunc_cache>(9));
  T("null", cuCtxGetCacheConfig, nullptr);
  T("", cuCtxGetCacheConfig, &cache);
  T("", cuCtxSetFlags, CU_CTX_SCHED_YIELD);
  T("bad", cuCtxSetFlags, 0xFFFF00u);
  T("", cuCtxGetFlags, &flags);
  V("flags", "%u", flags);
  T("null", cuCtxGetFlags, nullptr);
  T("", cuCtxSetFlags, CU_CTX_SCHED_AUTO);
  T("no least", cuCtxGetStreamPriorityRange, nullptr, nullptr);
  T("no greatest", cuCtxGetStreamPriorityRange, &least, nullptr);
  T("", cuCtxResetPersistingL2Cache);
  T("", cuProfilerStart);
  T("", cuProfilerStop);
  T("printf", cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, size_t{2} << 20);
  T("heap", cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, size_t{16} << 20);
  T("stack, huge", cuCtxSetLimit, CU_LIMIT_STACK_SIZE, size_t{1} << 50);
  for (int which = 0; which < 9; ++which) {
    char note[16];
    size_t limit = 0;
    std::snprintf(note, sizeof(note), "%d", which);
    T(note, cuCtxGetLimit, &limit, static_cast<CUlimit>(which));
    V("limit", "%zu", limit);
  }
}

void TraceOlderContextNames(CUcontext primary) {
  CUcontext context = nullptr, popped = nullptr, bad = reinterpret_cast<CUcontext>(0x77);
  CUdevice device = -1;
  unsigned version = 0;
  unsigned long long id = 0, other_id = 0;
  T("", cuCtxCreate_v3, &context, nullptr, 0, 0u, 0);
  T("", cuCtxGetDevice_v2, &device, context);
  V("device", "%d", device);
  T("", cuCtxSynchronize_v2, context);
  T("", cuCtxGetId, context, &id);
  T("current", cuCtxGetId, nullptr, &other_id);
  V("same id", "%d", id == other_id);
  T("null", cuCtxGetId, context, nullptr);
  T("current", cuCtxGetApiVersion, nullptr, &version);
  T("null", cuCtxGetApiVersion, context, nullptr);
  T("", cuCtxPopCurrent, &popped);
  T("", cuCtxPushCurrent, popped);
  T("", cuCtxDestroy, context);
  T("destroyed", cuCtxSetCurrent, context);
  T("destroyed", cuCtxPushCurrent_v2, context);
  T("destroyed", cuCtxGetApiVersion, context, &version);
  T("destroyed", cuCtxGetDevice_v2, &device, context);
  T("destroyed", cuCtxSynchronize_v2, context);
  T("bad", cuCtxSetCurrent, bad);
  T("bad", cuCtxDestroy_v2, bad);
  T("", cuCtxSetCurrent, primary);
  T("null", cuCtxGetCurrent, nullptr);
  T("null", cuCtxGetDevice, nullptr);
  T("", cuCtxCreate_v4, &context, nullptr, CU_CTX_SCHED_BLOCKING_SYNC, 0);
  T("null", cuCtxPopCurrent_v2, nullptr);
  T("", cuCtxDestroy_v2, context);
  T("null", cuCtxPushCurrent_v2, nullptr);
  T("", cuCtxSetCurrent, primary);
}

// What belongs to one context, used while another is current.
void TraceWrongContext(CUcontext primary) {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr address = 0;
  T("", cuCtxCreate_v2, &context, 0u, 0);
  T("", cuStreamCreate, &stream, 0u);
  T("", cuEventCreate, &event, 0u);
  T("", cuMemAlloc_v2, &address, 512);
  T("", cuCtxSetCurrent, primary);
  T("another context's", cuStreamQuery, stream);
  T("another context's", cuStreamSynchronize, stream);
  T("another context's", cuMemsetD8Async, address, 1, 16, stream);
  T("another context's memory", cuMemsetD8_v2, address, 1, 16);
  T("another context's stream", cuEventRecord, event, nullptr);
  T("another context's event", cuStreamWaitEvent, nullptr, event, 0);
  T("another context's", cuEventQuery, event);
  T("another context's", cuMemFree_v2, address);
  T("", cuCtxDestroy_v2, context);
  T("its context is gone", cuStreamQuery, stream);
  T("its context is gone", cuEventQuery, event);
  T("its context is gone", cuMemFree_v2, address);
  T("its context is gone", cuStreamDestroy_v2, stream);
  T("its context is gone", cuEventDestroy_v2, event);
}

}  // namespace

void TraceSettings() {
  CUcontext primary = nullptr;
  T("", cuCtxGetCurrent, &primary);
  TraceQuestions();
  TraceContextSettings();
  TraceOlderContextNames(primary);
  TraceWrongContext(primary);
}

// Last: what the primary context held is gone afterwards.
void TraceReset() {
  CUcontext primary = nullptr;
  unsigned flags = 0;
  int active = -1;
  CUdeviceptr address = 0;
  T("", cuMemAlloc_v2, &address, 512);
  T("bad device", cuDevicePrimaryCtxReset_v2, 7);
  T("", cuDevicePrimaryCtxReset_v2, 0);
  T("after the reset", cuDevicePrimaryCtxGetState, 0, &flags, &active);
  V("active", "%d", active);
  T("after the reset", cuMemFree_v2, address);
  T("", cuDevicePrimaryCtxSetFlags, 0, CU_CTX_SCHED_AUTO);
  T("", cuDevicePrimaryCtxRetain, &primary, 0);
  T("", cuCtxSetCurrent, primary);
  T("", cuMemAlloc_v2, &address, 512);
  T("", cuMemFree_v2, address);
  T("", cuDevicePrimaryCtxReset, 0);
  T("", cuDevicePrimaryCtxRelease, 0);
  T("too often", cuDevicePrimaryCtxRelease_v2, 0);
  T("too often", cuDevicePrimaryCtxRelease_v2, 0);
}
