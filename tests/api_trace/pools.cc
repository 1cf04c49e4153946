// SPDX-License-Identifier: Apache-2.0
// Memory in stream order, pools, registered host memory, pointers' attributes.
#include <vector>

#include "tests/api_trace/trace.h"

namespace {

void TraceStreamOrdered() {
  CUstream stream = nullptr;
  CUdeviceptr a = 0, none = 0;
  CUmemoryPool pool = nullptr, own = nullptr;
  T("", cuStreamCreate, &stream, 0u);
  T("", cuMemAllocAsync, &a, 1024, stream);
  T("", cuMemsetD8Async, a, 1, 1024, stream);
  T("", cuMemFreeAsync, a, stream);
  T("again", cuMemFreeAsync, a, stream);
  T("", cuMemAllocAsync_ptsz, &a, 1024, nullptr);
  T("", cuMemFreeAsync_ptsz, a, nullptr);
  T("null", cuMemAllocAsync, nullptr, 64, stream);
  T("zero", cuMemAllocAsync, &none, 0, stream);
  T("impossible", cuMemAllocAsync, &none, size_t{1} << 60, stream);
  T("bad stream", cuMemAllocAsync, &none, 64, reinterpret_cast<CUstream>(0x77));
  T("wild", cuMemFreeAsync, CUdeviceptr{0x40}, stream);
  T("null address", cuMemFreeAsync, CUdeviceptr{0}, stream);
  T("", cuDeviceGetDefaultMemPool, &pool, 0);
  T("null", cuDeviceGetDefaultMemPool, nullptr, 0);
  T("bad device", cuDeviceGetDefaultMemPool, &own, 7);
  T("", cuDeviceGetMemPool, &own, 0);
  V("the default one", "%d", own == pool);
  T("bad device", cuDeviceGetMemPool, &own, 7);
  T("", cuDeviceSetMemPool, 0, pool);
  T("null", cuDeviceSetMemPool, 0, nullptr);
  unsigned long long value = 4096;
  T("threshold", cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  value = 0;
  T("threshold", cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  V("threshold", "%llu", value);
  int flag = 7;
  T("reuse", cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &flag);
  V("reuse", "%d", flag);
  T("used", cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
  T("bad", cuMemPoolGetAttribute, pool, static_cast<CUmemPool_attribute>(99), &value);
  T("null", cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr);
  T("null", cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr);
  T("read only", cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
  T("", cuMemPoolTrimTo, pool, 0);
  T("null", cuMemPoolTrimTo, nullptr, 0);
  T("", cuStreamSynchronize, stream);
  T("", cuStreamDestroy_v2, stream);
}

void TraceRegistered() {
  std::vector<unsigned char> memory(16384, 5), up(4096, 9);
  CUdeviceptr there = 0, a = 0;
  unsigned flags = 77;
  T("", cuMemHostRegister_v2, memory.data(), memory.size(), 0u);
  T("twice", cuMemHostRegister_v2, memory.data(), memory.size(), 0u);
  T("flags", cuMemHostGetFlags, &flags, memory.data());
  V("flags", "%u", flags);
  T("registered", cuMemHostGetDevicePointer_v2, &there, memory.data(), 0u);
  T("bad flags", cuMemHostGetDevicePointer_v2, &there, memory.data(), 3u);
  T("null", cuMemHostGetDevicePointer_v2, nullptr, memory.data(), 0u);
  T("not registered", cuMemHostGetDevicePointer_v2, &there, &flags, 0u);
  T("", cuMemAlloc_v2, &a, 4096);
  T("from registered", cuMemcpyHtoDAsync_v2, a, memory.data(), 4096, nullptr);
  T("to registered", cuMemcpyDtoHAsync_v2, memory.data() + 4096, a, 4096, nullptr);
  T("", cuStreamSynchronize, nullptr);
  V("arrived", "%d", memory[4096 + 17]);
  T("", cuMemHostUnregister, memory.data());
  T("again", cuMemHostUnregister, memory.data());
  T("null", cuMemHostUnregister, nullptr);
  T("", cuMemHostRegister, memory.data(), 4096, CU_MEMHOSTREGISTER_PORTABLE);
  T("inside", cuMemHostUnregister, memory.data() + 64);
  T("", cuMemHostUnregister, memory.data());
  T("null", cuMemHostRegister_v2, nullptr, 4096, 0u);
  T("no bytes", cuMemHostRegister_v2, memory.data(), 0, 0u);
  T("bad flags", cuMemHostRegister_v2, memory.data(), 4096, 0xF00u);
  T("null", cuMemHostAlloc, nullptr, 4096, 0u);
  void* host = nullptr;
  T("zero", cuMemHostAlloc, &host, 0, 0u);
  T("zero", cuMemAllocHost_v2, &host, 0);
  T("mapped", cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
  T("mapped", cuMemHostGetDevicePointer_v2, &there, host, 0u);
  T("write-combined", cuMemHostGetFlags, &flags, host);
  V("flags", "%u", flags);
  T("null", cuMemHostGetFlags, nullptr, host);
  T("not the start", cuMemFreeHost, static_cast<char*>(host) + 64);
  T("", cuMemFreeHost, host);
  T("null", cuMemFreeHost, nullptr);
  T("", cuMemFree_v2, a);
}

void TracePointers() {
  CUdeviceptr a = 0, start = 0;
  size_t bytes = 0;
  unsigned value = 77;
  unsigned long long id = 0;
  T("", cuMemAlloc_v2, &a, 1000);
  for (int which = 1; which <= 17; ++which) {
    char note[16], room[64] = {};
    std::snprintf(note, sizeof(note), "%d", which);
    T(note, cuPointerGetAttribute, room, static_cast<CUpointer_attribute>(which), a);
  }
  T("start", cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 999);
  V("start", "%d", start == a);
  T("bytes", cuPointerGetAttribute, &bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a + 999);
  V("bytes", "%zu", bytes);
  value = ~0u;
  T("managed", cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_IS_MANAGED, a);
  V("managed", "%u", value);
  T("id", cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, a);
  V("has an id", "%d", id != 0);
  T("zero", cuPointerGetAttribute, &value, static_cast<CUpointer_attribute>(0), a);
  T("unknown", cuPointerGetAttribute, &value, static_cast<CUpointer_attribute>(99), a);
  T("null", cuPointerGetAttribute, nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a);
  int yes = 1;
  T("sync", cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a);
  T("not settable", cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a);
  T("wild", cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUdeviceptr{0x40});
  T("null", cuPointerSetAttribute, nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a);
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* values[] = {&value};
  T("none", cuPointerGetAttributes, 0u, wanted, values, a);
  T("null list", cuPointerGetAttributes, 1u, nullptr, values, a);
  T("null values", cuPointerGetAttributes, 1u, wanted, nullptr, a);
  T("end", cuMemGetAddressRange_v2, &start, &bytes, a + 1024 * 1024 * 64);
  T("only the base", cuMemGetAddressRange_v2, &start, nullptr, a);
  T("only the size", cuMemGetAddressRange_v2, nullptr, &bytes, a);
  T("nothing", cuMemGetAddressRange_v2, nullptr, nullptr, a);
  T("null", cuMemGetInfo_v2, nullptr, nullptr);
  T("", cuMemFree_v2, a);
  T("freed", cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a);
  T("freed", cuMemGetAddressRange_v2, &start, &bytes, a);
}

}  // namespace

void TracePools() {
  TraceStreamOrdered();
  TraceRegistered();
  TracePointers();
}
