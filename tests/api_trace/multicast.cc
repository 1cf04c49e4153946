// SPDX-License-Identifier: Apache-2.0
// Multicast objects, and the memory that is bound to them. Where there is one device they are
// refused; else a team of one device is enough to bind.
#include "tests/api_trace/trace.h"

namespace {

constexpr size_t kChunk = 2 << 20;

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return prop;
}

void TraceObjects() {
  CUmulticastObjectProp prop{};
  CUmemGenericAllocationHandle object = 0;
  size_t granularity = 0;
  prop.numDevices = 1;
  prop.size = 2 * kChunk;
  T("null", cuMulticastGetGranularity, nullptr, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
  T("no properties", cuMulticastGetGranularity, &granularity, nullptr,
    CU_MULTICAST_GRANULARITY_MINIMUM);
  T("minimum", cuMulticastGetGranularity, &granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
  T("recommended", cuMulticastGetGranularity, &granularity, &prop,
    CU_MULTICAST_GRANULARITY_RECOMMENDED);
  V("granularity", "%zu", granularity);
  T("no handle", cuMulticastCreate, nullptr, &prop);
  T("no properties", cuMulticastCreate, &object, nullptr);
  prop.flags = 1;
  T("flags", cuMulticastCreate, &object, &prop);
  prop.flags = 0;
  prop.numDevices = 0;
  T("no devices", cuMulticastCreate, &object, &prop);
  prop.numDevices = 1000;
  T("too many devices", cuMulticastCreate, &object, &prop);
  prop.numDevices = 1;
  prop.size = kChunk + 4096;
  T("odd size", cuMulticastCreate, &object, &prop);
  prop.size = 2 * kChunk;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
  T("handles of another system", cuMulticastCreate, &object, &prop);
  T("nothing", cuMulticastAddDevice, 0, 0);
  T("nothing", cuMulticastBindMem, 0, 0, 0, 0, kChunk, 0);
  T("nothing", cuMulticastBindAddr, 0, 0, 0, kChunk, 0);
  T("nothing", cuMulticastUnbind, 0, 0, 0, kChunk);
}

void TraceBinding() {
  CUmemAllocationProp prop = OnDevice();
  CUmulticastObjectProp team{};
  team.numDevices = 1;
  team.size = 4 * kChunk;
  CUmemGenericAllocationHandle object = 0, memory = 0;
  CUdeviceptr range = 0, plain = 0;
  T("", cuMemCreate, &memory, 2 * kChunk, &prop, 0);
  T("", cuMemAddressReserve, &range, 8 * kChunk, 0, 0, 0);
  T("of one", cuMulticastCreate, &object, &team);
  T("memory", cuMulticastAddDevice, memory, 0);
  T("bad device", cuMulticastAddDevice, object, 77);
  T("of one", cuMulticastAddDevice, object, 0);
  T("again", cuMulticastAddDevice, object, 0);
  T("of one", cuMulticastBindMem, object, kChunk, memory, 0, kChunk, 0);
  T("over another", cuMulticastBindMem, object, kChunk, memory, kChunk, kChunk, 0);
  T("flags", cuMulticastBindMem, object, 0, memory, 0, kChunk, 1);
  T("odd offset", cuMulticastBindMem, object, 4096, memory, 0, kChunk, 0);
  T("beyond the object", cuMulticastBindMem, object, 4 * kChunk, memory, 0, kChunk, 0);
  T("beyond the memory", cuMulticastBindMem, object, 0, memory, 2 * kChunk, kChunk, 0);
  T("itself", cuMulticastBindMem, object, 0, object, 0, kChunk, 0);
  T("no memory", cuMulticastBindMem, object, 0, 0x1234, 0, kChunk, 0);
  T("", cuMemMap, range, 2 * kChunk, 0, memory, 0);
  T("by address", cuMulticastBindAddr, object, 2 * kChunk, range + kChunk, kChunk, 0);
  T("not mapped", cuMulticastBindAddr, object, 0, range + 4 * kChunk, kChunk, 0);
  T("odd address", cuMulticastBindAddr, object, 0, range + 512, kChunk, 0);
  T("", cuMemAlloc_v2, &plain, 8 * kChunk);
  T("other memory", cuMulticastBindAddr, object, 0, (plain + kChunk - 1) & ~(kChunk - 1), kChunk,
    0);
  T("", cuMemFree_v2, plain);
  T("object", cuMemGetAllocationPropertiesFromHandle, &prop, object);
  T("object", cuMemMap, range + 4 * kChunk, 4 * kChunk, 0, object, 0);
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  T("object", cuMemSetAccess, range + 4 * kChunk, 4 * kChunk, &access, 1);
  unsigned long long flags = 0;
  T("object", cuMemGetAccess, &flags, &access.location, range + 4 * kChunk);
  V("flags", "%llu", flags);
  T("object", cuMemsetD8_v2, range + 4 * kChunk, 1, kChunk);
  T("bad device", cuMulticastUnbind, object, 77, kChunk, kChunk);
  T("of nothing", cuMulticastUnbind, object, 0, 0, kChunk);
  T("of one", cuMulticastUnbind, object, 0, kChunk, kChunk);
  T("again", cuMulticastUnbind, object, 0, kChunk, kChunk);
  T("bound", cuMemRelease, memory);
  T("object", cuMemRelease, object);
  T("released", cuMulticastUnbind, object, 0, 2 * kChunk, kChunk);
  T("object", cuMemUnmap, range + 4 * kChunk, 4 * kChunk);
  T("", cuMemUnmap, range, 2 * kChunk);
  T("", cuMemAddressFree, range, 8 * kChunk);
}

}  // namespace

void TraceMulticast() {
  int supported = 0;
  T("multicast", cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0);
  V("supported", "%d", supported);
  TraceObjects();
  if (supported != 0) TraceBinding();
}
