// SPDX-License-Identifier: Apache-2.0
// A multicast object over the memory of two devices: who waits for its team, what is bound, what
// stays because it is bound. The server gives 64 MiB of each device.
#include <atomic>
#include <thread>

#include "driver.h"

namespace {

constexpr size_t kChunk = 2 << 20;
constexpr size_t kObjectBytes = 4 * kChunk;

CUmemGenericAllocationHandle MakePiece(int device, size_t bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemGenericAllocationHandle piece = 0;
  CHECK(D(cuMemCreate)(&piece, bytes, &prop, 0));
  return piece;
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  CHECK(D(cuMemGetInfo_v2)(&free, &total));
  return free;
}

void Allow(CUdeviceptr address, size_t bytes) {
  CUmemAccessDesc access[2] = {};
  for (int device = 0; device < 2; ++device) {
    access[device].location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(D(cuMemSetAccess)(address, bytes, access, 2));
}

CUmemGenericAllocationHandle MakeObject() {
  CUmulticastObjectProp prop{};
  prop.numDevices = 2;
  prop.size = kObjectBytes;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  CHECK(D(cuMulticastGetGranularity)(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
  EXPECT(granularity != 0 && prop.size % granularity == 0);
  // Shareable objects take shareable memory only, and lend themselves to nobody here.
  CUmemGenericAllocationHandle object = 0, memory = MakePiece(0, kChunk);
  CHECK(D(cuMulticastCreate)(&object, &prop));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMulticastBindMem)(object, 0, memory, 0, kChunk, 0));
  int descriptor = -1;
  CODE(CUDA_ERROR_NOT_SUPPORTED,
       D(cuMemExportToShareableHandle)(&descriptor, object,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(D(cuMemRelease)(object));
  CHECK(D(cuMemRelease)(memory));
  prop.handleTypes = 0;
  CHECK(D(cuMulticastCreate)(&object, &prop));
  return object;
}

// Binding and mapping wait for the second device, which another thread adds.
void WaitForTheTeam(CUmemGenericAllocationHandle object, CUmemGenericAllocationHandle first,
                    CUdeviceptr range) {
  CHECK(D(cuMulticastAddDevice)(object, 0));
  std::atomic<bool> added{false};
  std::thread mapper([&] {
    CHECK(D(cuMemMap)(range, kObjectBytes, 0, object, 0));
    EXPECT(added);
  });
  std::thread binder([&] {
    CHECK(D(cuMulticastBindMem)(object, 0, first, kChunk, kChunk, 0));
    EXPECT(added);
  });
  std::this_thread::yield();
  added = true;
  CHECK(D(cuMulticastAddDevice)(object, 1));
  mapper.join();
  binder.join();
}

void BindAndLetGo() {
  size_t free = FreeBytes();
  CUmemGenericAllocationHandle object = MakeObject();
  CUmemGenericAllocationHandle first = MakePiece(0, 2 * kChunk), second = MakePiece(1, 2 * kChunk);
  CUdeviceptr range = 0, own = 0;
  CHECK(D(cuMemAddressReserve)(&range, kObjectBytes, 0, 0, 0));
  CHECK(D(cuMemAddressReserve)(&own, 2 * kChunk, 0, 0, 0));
  WaitForTheTeam(object, first, range);
  CHECK(D(cuMemMap)(own, 2 * kChunk, 0, second, 0));
  Allow(own, 2 * kChunk);
  CHECK(D(cuMulticastBindAddr)(object, 0, own + kChunk, kChunk, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMulticastBindMem)(object, 0, first, 0, kChunk, 0));
  // Plain copies have no business with what only multimem instructions reach.
  Allow(range, kObjectBytes);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemsetD8_v2)(range, 1, kChunk));
  // What is bound is the application's memory as before.
  int value = 0;
  CHECK(D(cuMemsetD32_v2)(own + kChunk, 1234, kChunk / 4));
  CHECK(D(cuMemcpyDtoH_v2)(&value, own + kChunk, sizeof(value)));
  EXPECT(value == 1234);

  // Bound memory stays, and counts, until it is unbound or the object goes.
  CHECK(D(cuMemRelease)(first));
  EXPECT(FreeBytes() == free - 2 * kChunk);
  CHECK(D(cuMulticastUnbind)(object, 0, 0, kChunk));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMulticastUnbind)(object, 0, 0, kChunk));
  EXPECT(FreeBytes() == free);
  CHECK(D(cuMemUnmap)(own, 2 * kChunk));
  CHECK(D(cuMemRelease)(second));
  CHECK(D(cuMemRelease)(object));
  CHECK(D(cuMemUnmap)(range, kObjectBytes));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMulticastAddDevice)(object, 0));
  CHECK(D(cuMemAddressFree)(range, kObjectBytes));
  CHECK(D(cuMemAddressFree)(own, 2 * kChunk));
}

}  // namespace

void MulticastSubject() {
  for (int device = 0; device < 2; ++device) {
    int supported = 0;
    CHECK(D(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device));
    EXPECT(supported == 1);
  }
  BindAndLetGo();
  CHECK(D(cuCtxSynchronize)());
}
