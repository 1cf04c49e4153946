// SPDX-License-Identifier: Apache-2.0
// Allocation, copies, memsets, pinned host memory, pointer queries.
#include <cstring>
#include <vector>

#include "tests/api_trace/trace.h"

namespace {

void TraceAllocation() {
  CUdeviceptr a = 0, base = 0;
  size_t pitch = 0, size = 0, free_bytes = 0, total = 0;
  T("zero", cuMemAlloc_v2, &a, 0);
  T("null", cuMemAlloc_v2, nullptr, 64);
  T("impossible", cuMemAlloc_v2, &a, size_t{1} << 60);
  T("", cuMemAlloc_v2, &a, 1000);
  T("inside", cuMemGetAddressRange_v2, &base, &size, a + 10);
  V("base is the start", "%d", base == a);
  V("size", "%zu", size);
  T("wild", cuMemGetAddressRange_v2, &base, &size, 0x1234);
  T("", cuMemGetInfo_v2, &free_bytes, &total);
  V("free below total", "%d", free_bytes < total);
  T("inside", cuMemFree_v2, a + 16);
  T("", cuMemFree_v2, a);
  T("again", cuMemFree_v2, a);
  T("null", cuMemFree_v2, 0);
  T("", cuMemAllocPitch_v2, &a, &pitch, 100, 10, 4);
  V("pitch is enough", "%d", pitch >= 100);
  T("bad element", cuMemAllocPitch_v2, &base, &pitch, 100, 10, 3);
  T("no height", cuMemAllocPitch_v2, &base, &pitch, 100, 0, 4);
  T("", cuMemFree_v2, a);
}

void TraceCopies() {
  std::vector<unsigned char> up(4096), down(4096);
  for (size_t i = 0; i < up.size(); ++i) up[i] = static_cast<unsigned char>(i * 7);
  CUdeviceptr a = 0, b = 0;
  T("", cuMemAlloc_v2, &a, 4096);
  T("", cuMemAlloc_v2, &b, 4096);
  T("", cuMemcpyHtoD_v2, a, up.data(), 4096);
  T("", cuMemcpyDtoD_v2, b, a, 4096);
  T("", cuMemcpyDtoH_v2, down.data(), b, 4096);
  V("equal", "%d", up == down);
  T("past the end", cuMemcpyHtoD_v2, a, up.data(), size_t{1} << 40);
  T("wild", cuMemcpyHtoD_v2, 0x1000, up.data(), 16);
  T("wild", cuMemcpyDtoH_v2, down.data(), 0x1000, 16);
  T("wild", cuMemcpyDtoD_v2, a, 0x1000, 16);
  T("nothing", cuMemcpyHtoD_v2, a, up.data(), 0);
  T("", cuMemcpy, b, a, 128);
  T("", cuMemcpyAsync, b, a, 128, nullptr);
  T("", cuMemcpyHtoDAsync_v2, a, up.data(), 4096, nullptr);
  T("", cuMemcpyDtoHAsync_v2, down.data(), a, 4096, nullptr);
  T("", cuMemcpyDtoDAsync_v2, b, a, 4096, nullptr);
  T("bad stream", cuMemcpyDtoDAsync_v2, b, a, 16, reinterpret_cast<CUstream>(0x7));
  T("", cuMemsetD8_v2, a, 0x5A, 4096);
  T("", cuMemsetD16_v2, a, 0x1234, 100);
  T("odd", cuMemsetD16_v2, a + 1, 0x1234, 100);
  T("", cuMemsetD32_v2, a, 0xDEADBEEF, 100);
  T("odd", cuMemsetD32_v2, a + 2, 1, 100);
  T("past the end", cuMemsetD8_v2, a, 1, size_t{1} << 40);
  T("", cuMemsetD2D8_v2, a, 64, 3, 16, 8);
  T("", cuMemsetD2D32_v2, a, 64, 3, 4, 8);
  T("", cuMemsetD8Async, a, 1, 64, nullptr);
  T("", cuMemsetD32Async, a, 1, 16, nullptr);
  T("", cuMemcpyDtoH_v2, down.data(), a, 64);
  V("byte", "%d", down[0]);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = up.data();
  copy.srcPitch = 64;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = a;
  copy.dstPitch = 128;
  copy.WidthInBytes = 32;
  copy.Height = 16;
  T("up", cuMemcpy2D_v2, &copy);
  T("up", cuMemcpy2DAsync_v2, &copy, nullptr);
  T("up", cuMemcpy2DUnaligned_v2, &copy);
  std::swap(copy.srcMemoryType, copy.dstMemoryType);
  copy.srcDevice = a;
  copy.srcPitch = 128;
  copy.dstHost = down.data();
  copy.dstPitch = 64;
  std::memset(down.data(), 0, down.size());
  T("down", cuMemcpy2D_v2, &copy);
  V("row 1", "%d", std::memcmp(down.data() + 64, up.data() + 64, 32) == 0);
  copy.dstPitch = 8;
  T("pitch below width", cuMemcpy2D_v2, &copy);
  T("null", cuMemcpy2D_v2, nullptr);
  T("", cuMemFree_v2, a);
  T("", cuMemFree_v2, b);
}

void TraceHost() {
  void* host = nullptr;
  unsigned flags = 9;
  T("", cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_PORTABLE);
  T("bad flags", cuMemHostAlloc, &host, 4096, 0xF0);
  T("", cuMemHostGetFlags, &flags, host);
  size_t size = 0;
  T("of host", cuMemGetAddressRange_v2, nullptr, &size, reinterpret_cast<CUdeviceptr>(host) + 8);
  V("size", "%zu", size);
  unsigned type = 0;
  CUcontext context = nullptr;
  T("type of host", cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    reinterpret_cast<CUdeviceptr>(host));
  V("type", "%u", type);
  T("", cuMemFreeHost, host);
  T("again", cuMemFreeHost, host);
  T("", cuMemAllocHost_v2, &host, 100);
  T("", cuMemFreeHost, host);
  T("wild", cuMemHostGetFlags, &flags, reinterpret_cast<void*>(0x10));
  CUdeviceptr a = 0;
  T("", cuMemAlloc_v2, &a, 256);
  T("type", cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a);
  V("type", "%u", type);
  T("context", cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, a);
  int ordinal = -1;
  T("ordinal", cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a + 5);
  V("ordinal", "%d", ordinal);
  T("wild", cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr{0x40});
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &ordinal};
  T("", cuPointerGetAttributes, 2, wanted, values, a);
  T("wild", cuPointerGetAttributes, 2, wanted, values, CUdeviceptr{0x40});
  V("type", "%u", type);
  T("", cuMemFree_v2, a);
}

}  // namespace

void TraceMemory() {
  TraceAllocation();
  TraceCopies();
  TraceHost();
}
