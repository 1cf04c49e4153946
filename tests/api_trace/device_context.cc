// SPDX-License-Identifier: Apache-2.0
// Devices, primary contexts, contexts, limits, errors, proc addresses.
#include <cstring>

#include "tests/api_trace/trace.h"

void TraceDevice() {
  int version = 0, count = 0, value = 0, major = 0, minor = 0;
  CUdevice device = 0;
  char text[64] = {};
  size_t bytes = 0;
  CUuuid uuid{};
  CUdevprop properties{};
  T("", cuDriverGetVersion, &version);
  T("null", cuDriverGetVersion, nullptr);
  T("", cuDeviceGetCount, &count);
  T("null", cuDeviceGetCount, nullptr);
  V("count", "%d", count);
  T("", cuDeviceGet, &device, 0);
  T("negative", cuDeviceGet, &device, -1);
  T("past the end", cuDeviceGet, &device, count);
  T("null", cuDeviceGet, nullptr, 0);
  device = 0;
  T("", cuDeviceGetName, text, 64, device);
  V("name", "%s", text);
  T("short", cuDeviceGetName, text, 4, device);
  T("no room", cuDeviceGetName, text, 0, device);
  T("bad device", cuDeviceGetName, text, 64, 77);
  T("", cuDeviceGetUuid, &uuid, device);
  T("", cuDeviceGetUuid_v2, &uuid, device);
  T("null", cuDeviceGetUuid_v2, nullptr, device);
  T("", cuDeviceTotalMem_v2, &bytes, device);
  T("bad device", cuDeviceTotalMem_v2, &bytes, 9);
  for (int attribute : {1, 2, 5, 8, 10, 12, 13, 16, 39, 75, 76, 81, 97, 102, 115}) {
    char note[32];
    std::snprintf(note, sizeof(note), "%d", attribute);
    T(note, cuDeviceGetAttribute, &value, static_cast<CUdevice_attribute>(attribute), device);
    if (attribute != 13) V("value", "%d", value);
  }
  T("zero", cuDeviceGetAttribute, &value, static_cast<CUdevice_attribute>(0), device);
  T("huge", cuDeviceGetAttribute, &value, static_cast<CUdevice_attribute>(100000), device);
  T("bad device", cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 5);
  T("", cuDeviceComputeCapability, &major, &minor, device);
  V("capability", "%d", major * 10 + minor);
  T("", cuDeviceGetProperties, &properties, device);
  V("maxThreadsPerBlock", "%d", properties.maxThreadsPerBlock);
  T("", cuDeviceGetPCIBusId, text, 32, device);
  CUdevice found = -1;
  T("", cuDeviceGetByPCIBusId, &found, text);
  V("found", "%d", found);
  T("nonsense", cuDeviceGetByPCIBusId, &found, "what");
  T("self", cuDeviceCanAccessPeer, &value, device, device);
  T("bad", cuDeviceCanAccessPeer, &value, device, 3);
  const char* name = nullptr;
  T("", cuGetErrorName, CUDA_ERROR_INVALID_VALUE, &name);
  V("error name", "%s", name);
  T("", cuGetErrorString, CUDA_ERROR_OUT_OF_MEMORY, &name);
  T("unknown", cuGetErrorString, static_cast<CUresult>(54321), &name);
  T("unknown", cuGetErrorName, static_cast<CUresult>(54321), &name);
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  T("cuMemAlloc", cuGetProcAddress_v2, "cuMemAlloc", &function, 12000, 0, &status);
  V("status", "%d", static_cast<int>(status));
  T("too old", cuGetProcAddress_v2, "cuStreamBeginCapture", &function, 9000, 0, &status);
  V("status", "%d", static_cast<int>(status));
  T("unknown", cuGetProcAddress_v2, "cuNoSuchThing", &function, 13000, 0, &status);
  V("status", "%d", static_cast<int>(status));
  T("null", cuGetProcAddress_v2, "cuInit", nullptr, 13000, 0, &status);
  CUmoduleLoadingMode mode{};
  T("", cuModuleGetLoadingMode, &mode);
}

void TraceContext() {
  CUcontext primary = nullptr, context = nullptr, current = nullptr, other = nullptr;
  unsigned flags = 0, version = 0;
  int active = -1;
  CUdevice device = -1;
  size_t limit = 0;
  unsigned long long id = 0;
  T("none", cuCtxGetCurrent, &current);
  V("none", "%d", current == nullptr);
  T("without a context", cuCtxSynchronize);
  T("without a context", cuCtxGetDevice, &device);
  CUdeviceptr address = 0;
  T("without a context", cuMemAlloc_v2, &address, 64);
  T("", cuDevicePrimaryCtxGetState, 0, &flags, &active);
  V("active", "%d", active);
  T("not held", cuDevicePrimaryCtxRelease_v2, 0);
  T("", cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_SPIN);
  T("bad flags", cuDevicePrimaryCtxSetFlags_v2, 0, 0xFFFF);
  T("", cuDevicePrimaryCtxRetain, &primary, 0);
  T("bad device", cuDevicePrimaryCtxRetain, &other, 8);
  T("null", cuDevicePrimaryCtxRetain, nullptr, 0);
  T("", cuDevicePrimaryCtxGetState, 0, &flags, &active);
  V("active", "%d", active);
  V("flags", "%u", flags);
  T("", cuCtxSetCurrent, primary);
  T("", cuCtxGetCurrent, &current);
  V("current is primary", "%d", current == primary);
  T("", cuCtxGetDevice, &device);
  T("", cuCtxGetFlags, &flags);
  T("", cuCtxGetApiVersion, primary, &version);
  T("", cuCtxGetId, primary, &id);
  T("", cuCtxCreate_v2, &context, 0, 0);
  T("bad device", cuCtxCreate_v2, &other, 0, 4);
  T("bad flags", cuCtxCreate_v2, &other, 0xFFF0, 0);
  T("null", cuCtxCreate_v2, nullptr, 0, 0);
  T("", cuCtxGetCurrent, &current);
  V("current is the new one", "%d", current == context);
  T("", cuCtxPushCurrent_v2, primary);
  T("", cuCtxPopCurrent_v2, &current);
  V("popped primary", "%d", current == primary);
  for (int which : {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE})
    T("", cuCtxGetLimit, &limit, static_cast<CUlimit>(which));
  T("stack", cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 4096);
  T("", cuCtxGetLimit, &limit, CU_LIMIT_STACK_SIZE);
  T("unknown", cuCtxGetLimit, &limit, static_cast<CUlimit>(99));
  T("unknown", cuCtxSetLimit, static_cast<CUlimit>(99), 5);
  T("null", cuCtxGetLimit, nullptr, CU_LIMIT_STACK_SIZE);
  CUfunc_cache cache{};
  T("", cuCtxGetCacheConfig, &cache);
  T("", cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
  int least = 0, greatest = 0;
  T("", cuCtxGetStreamPriorityRange, &least, &greatest);
  V("priorities", "%d", least - greatest);
  T("", cuCtxSynchronize);
  T("", cuCtxDestroy_v2, context);
  T("again", cuCtxDestroy_v2, context);
  T("null", cuCtxDestroy_v2, nullptr);
  T("", cuCtxSetCurrent, primary);
  T("", cuDevicePrimaryCtxRetain, &other, 0);
  V("the same", "%d", other == primary);
  T("", cuDevicePrimaryCtxRelease_v2, 0);
}
