// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

void PrintBytes(const char* what, const void* from, size_t count) {
  std::printf("  %s =", what);
  for (size_t i = 0; i < count; ++i)
    std::printf(" %02x", static_cast<const unsigned char*>(from)[i]);
  std::printf("\n");
}

void Errors() {
  for (int i = 0; i < 1000; ++i) {
    auto error = static_cast<cudaError_t>(i);
    std::printf("%d %s: %s\n", i, cudaGetErrorName(error), cudaGetErrorString(error));
  }
  T(cudaGetLastError());
}

}  // namespace

// Long: the calls of one trace, in its order.
void TraceDevices() {
  Errors();
  int count = -1, device = -1, value = -1, version = 0;
  T(cudaDriverGetVersion(&version));
  T(cudaDriverGetVersion(nullptr));
  T(cudaRuntimeGetVersion(&version));
  V(version);
  T(cudaRuntimeGetVersion(nullptr));
  T(cudaGetDeviceCount(&count));
  T(cudaGetDeviceCount(nullptr));
  V(count);
  T(cudaGetDevice(&device));
  T(cudaGetDevice(nullptr));
  V(device);
  unsigned flags = 77;
  T(cudaGetDeviceFlags(&flags));
  V(flags);
  T(cudaGetDeviceFlags(nullptr));
  T(cudaSetDeviceFlags(0xFFFF));
  T(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  T(cudaGetDeviceFlags(&flags));
  V(flags);
  T(cudaSetDevice(99));
  T(cudaSetDevice(-1));
  T(cudaInitDevice(99, 0, 0));
  T(cudaInitDevice(0, 0, 0));
  T(cudaInitDevice(0, 0, 77));
  T(cudaInitDevice(0, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
  T(cudaSetDevice(0));
  T(cudaGetDeviceFlags(&flags));
  V(flags);
  T(cudaSetDeviceFlags(cudaDeviceScheduleYield));
  cudaDeviceProp props;
  std::memset(&props, 0xA5, sizeof(props));
  T(cudaGetDeviceProperties(&props, 0));
  PrintBytes("props", &props, sizeof(props));
  T(cudaGetDeviceProperties(&props, 9));
  T(cudaGetDeviceProperties(nullptr, 0));
  T(cudaChooseDevice(&device, &props));
  V(device);
  T(cudaChooseDevice(nullptr, &props));
  for (int i = -1; i < 160; ++i) {
    value = -7;
    cudaError_t code = cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(i), 0);
    cudaError_t last = cudaGetLastError();
    std::printf("attribute %d -> %s %s %d\n", i, cudaGetErrorName(code), cudaGetErrorName(last),
                value);
  }
  T(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0));
  T(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 50));
  char bus[32] = "";
  T(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0));
  TEXT(bus);
  T(cudaDeviceGetPCIBusId(bus, 2, 0));
  T(cudaDeviceGetPCIBusId(nullptr, 32, 0));
  T(cudaDeviceGetPCIBusId(bus, sizeof(bus), 5));
  T(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0));
  T(cudaDeviceGetByPCIBusId(&device, bus));
  V(device);
  T(cudaDeviceGetByPCIBusId(&device, "nonsense"));
  T(cudaDeviceGetByPCIBusId(nullptr, bus));
  size_t limit = 0;
  for (int i = 0; i < 9; ++i) {
    T(cudaDeviceGetLimit(&limit, static_cast<cudaLimit>(i)));
    if (i < 3) V(limit);
  }
  T(cudaDeviceGetLimit(nullptr, cudaLimitStackSize));
  T(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  T(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  V(limit);
  cudaFuncCache cache;
  T(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
  T(cudaDeviceGetCacheConfig(&cache));
  V(cache);
  T(cudaDeviceSetCacheConfig(static_cast<cudaFuncCache>(9)));
  T(cudaDeviceGetCacheConfig(nullptr));
  cudaSharedMemConfig shared;
  T(cudaDeviceGetSharedMemConfig(&shared));
  V(shared);
  T(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
  int least = 0, greatest = 0;
  T(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  V(least);
  V(greatest);
  T(cudaDeviceGetStreamPriorityRange(nullptr, nullptr));
  T(cudaDeviceCanAccessPeer(&value, 0, 0));
  T(cudaDeviceCanAccessPeer(&value, 0, 9));
  T(cudaDeviceCanAccessPeer(nullptr, 0, 0));
  T(cudaDeviceEnablePeerAccess(0, 0));
  T(cudaDeviceEnablePeerAccess(9, 0));
  T(cudaDeviceDisablePeerAccess(0));
  T(cudaDeviceDisablePeerAccess(9));
  T(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
  T(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 9));
  T(cudaDeviceSynchronize());
  T(cudaCtxResetPersistingL2Cache());
  int valid[] = {0, 44};
  T(cudaSetValidDevices(valid, 1));
  T(cudaSetValidDevices(valid, 2));
  T(cudaSetValidDevices(nullptr, 0));
  T(cudaSetValidDevices(nullptr, 1));
}
