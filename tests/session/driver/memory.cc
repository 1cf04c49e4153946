// SPDX-License-Identifier: Apache-2.0
// Memory that comes to arrays later, decompression, batches over managed memory, notifications.
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "driver.h"

namespace {

constexpr size_t kWidth = 300, kHeight = 40, kPiece = 2u << 20;

size_t FreeBytes() {
  size_t free = 0, total = 0;
  CHECK(D(cuMemGetInfo_v2)(&free, &total));
  return free;
}

CUmemGenericAllocationHandle MakePiece() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  CUmemGenericAllocationHandle piece = 0;
  CHECK(D(cuMemCreate)(&piece, kPiece, &prop, 0));
  prop.allocFlags.usage = 64;
  CUmemGenericAllocationHandle none = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemCreate)(&none, kPiece, &prop, 0));
  return piece;
}

CUarrayMapInfo Onto(CUarray array, CUmemGenericAllocationHandle piece, size_t offset) {
  CUarrayMapInfo info{};
  info.resourceType = CU_RESOURCE_TYPE_ARRAY;
  info.resource.array = array;
  info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info.memHandle.memHandle = piece;
  info.offset = offset;
  info.deviceBitMask = 1;
  return info;
}

CUDA_MEMCPY3D Whole(CUarray array, void* host, bool up) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = up ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  (up ? copy.dstArray : copy.srcArray) = array;
  copy.srcHost = copy.dstHost = host;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = kWidth;
  copy.srcHeight = copy.dstHeight = copy.Height = kHeight;
  copy.Depth = 1;
  return copy;
}

void DeferredArrays() {
  size_t free = FreeBytes();
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = kWidth;
  shape.Height = kHeight;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  shape.NumChannels = 1;
  CUarray plain = nullptr, first = nullptr, second = nullptr;
  CHECK(D(cuArray3DCreate_v2)(&plain, &shape));
  shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CHECK(D(cuArray3DCreate_v2)(&first, &shape));
  CHECK(D(cuArray3DCreate_v2)(&second, &shape));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CHECK(D(cuArrayGetMemoryRequirements)(&needs, first, 0));
  EXPECT(needs.size >= kWidth * kHeight && needs.alignment != 0 && needs.size <= kPiece);
  CUmemGenericAllocationHandle piece = MakePiece();

  CUarrayMapInfo info = Onto(plain, piece, 0);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemMapArrayAsync)(&info, 1, nullptr));  // it has memory
  info = Onto(first, piece, 0);
  info.deviceBitMask = 2;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemMapArrayAsync)(&info, 1, nullptr));
  info = Onto(first, piece, kPiece);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemMapArrayAsync)(&info, 1, nullptr));
  info = Onto(first, piece + 16, 0);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemMapArrayAsync)(&info, 1, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemMapArrayAsync)(nullptr, 1, nullptr));
  info = Onto(nullptr, piece, 0);
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuMemMapArrayAsync)(&info, 1, nullptr));

  // Both over the same bytes: what one is given, the other shows.
  size_t offset = needs.alignment;
  CUarrayMapInfo both[2] = {Onto(first, piece, offset), Onto(second, piece, offset)};
  CHECK(D(cuMemMapArrayAsync)(both, 2, nullptr));
  std::vector<uint8_t> in(kWidth * kHeight), out(kWidth * kHeight);
  std::iota(in.begin(), in.end(), uint8_t{3});
  CUDA_MEMCPY3D copy = Whole(first, in.data(), true);
  CHECK(D(cuMemcpy3D_v2)(&copy));
  copy = Whole(second, out.data(), false);
  CHECK(D(cuMemcpy3D_v2)(&copy));
  EXPECT(in == out);
  // The memory outlives its handle while an array has it, and is charged until the last one goes.
  CHECK(D(cuMemRelease)(piece));
  CHECK(D(cuArrayDestroy)(first));
  std::fill(out.begin(), out.end(), uint8_t{0});
  CHECK(D(cuMemcpy3D_v2)(&copy));
  EXPECT(in == out);
  EXPECT(FreeBytes() <= free - kPiece);
  info = Onto(second, 0, 0);
  info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  CHECK(D(cuMemMapArrayAsync)(&info, 1, nullptr));
  CHECK(D(cuArrayDestroy)(
      plain));  // its memory comes back later; that of the other one is waited for
  CHECK(D(cuArrayDestroy)(second));
  CHECK(D(cuCtxSynchronize)());
  EXPECT(FreeBytes() == free);
}

// "abcd" four times, then "vwxyz": a match of twelve bytes that overlaps itself.
constexpr uint8_t kBlock[] = {0x48, 'a', 'b', 'c', 'd', 4, 0, 0x50, 'v', 'w', 'x', 'y', 'z'};
constexpr char kText[] = "abcdabcdabcdabcdvwxyz";

void Decompression() {
  int algorithms = 0;
  CHECK(D(cuDeviceGetAttribute)(&algorithms, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0));
  EXPECT((algorithms & CU_MEM_DECOMPRESS_ALGORITHM_LZ4) != 0);
  CUdeviceptr data = 0;
  CHECK(D(cuMemAlloc_v2)(&data, 4096));
  CHECK(D(cuMemsetD8_v2)(data, 0, 4096));
  CHECK(D(cuMemcpyHtoD_v2)(data, kBlock, sizeof(kBlock)));
  CUmemDecompressParams params[2] = {};
  params[0].src = reinterpret_cast<void*>(data);
  params[0].srcNumBytes = sizeof(kBlock);
  params[0].dst = reinterpret_cast<void*>(data + 1024);
  params[0].dstNumBytes = 100;
  params[0].dstActBytes = reinterpret_cast<cuuint32_t*>(data + 2048);
  params[0].algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
  params[1] = params[0];
  params[1].src = reinterpret_cast<void*>(data + 512);  // zeros are no block
  params[1].dst = reinterpret_cast<void*>(data + 1536);
  params[1].dstActBytes = reinterpret_cast<cuuint32_t*>(data + 2052);
  CHECK(D(cuMemsetD32_v2)(data + 2048, 77, 2));
  size_t wrong = 5;
  CHECK(D(cuMemBatchDecompressAsync)(params, 2, 0, &wrong, nullptr));
  uint32_t written[2] = {};
  char text[sizeof(kText)] = {};
  CHECK(D(cuMemcpyDtoH_v2)(written, data + 2048, sizeof(written)));
  CHECK(D(cuMemcpyDtoH_v2)(text, data + 1024, sizeof(kText) - 1));
  EXPECT(written[0] == sizeof(kText) - 1 && written[1] != 77);
  EXPECT(std::strcmp(text, kText) == 0);
  params[1].dst = text;  // not the device's
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemBatchDecompressAsync)(params, 2, 0, &wrong, nullptr));
  EXPECT(wrong == 1);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemBatchDecompressAsync)(params, 1, 1, &wrong, nullptr));
  EXPECT(wrong == SIZE_MAX);
  CHECK(D(cuMemFree_v2)(data));
}

int PrefetchedTo(CUdeviceptr pages, size_t bytes) {
  int device = 77;
  CHECK(D(cuMemRangeGetAttribute)(&device, sizeof(device),
                                  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, pages, bytes));
  return device;
}

void ManagedBatches() {
  CUdeviceptr pages[3] = {};
  size_t sizes[3] = {8192, 4096, 4096};
  for (size_t i = 0; i < 3; ++i)
    CHECK(D(cuMemAllocManaged)(&pages[i], sizes[i], CU_MEM_ATTACH_GLOBAL));
  CUstream stream = nullptr;
  CHECK(D(cuStreamCreate)(&stream, 0));
  CUmemLocation places[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  size_t starts[2] = {0, 2};
  CHECK(D(cuMemPrefetchBatchAsync)(pages, sizes, 3, places, starts, 2, 0, stream));
  EXPECT(PrefetchedTo(pages[0], sizes[0]) == 0 && PrefetchedTo(pages[1], sizes[1]) == 0 &&
         PrefetchedTo(pages[2], sizes[2]) == CU_DEVICE_CPU);
  CHECK(D(cuMemDiscardBatchAsync)(pages, sizes, 3, 0, stream));
  size_t first = 0;
  CHECK(D(cuMemDiscardAndPrefetchBatchAsync)(pages, sizes, 3, places + 1, &first, 1, 0, stream));
  EXPECT(PrefetchedTo(pages[0], sizes[0]) == CU_DEVICE_CPU);
  // The legacy stream, starts that do not rise, more places than operations, other memory.
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemDiscardBatchAsync)(pages, sizes, 3, 0, nullptr));
  starts[1] = 0;
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuMemPrefetchBatchAsync)(pages, sizes, 3, places, starts, 2, 0, stream));
  starts[1] = 3;
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuMemPrefetchBatchAsync)(pages, sizes, 3, places, starts, 2, 0, stream));
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuMemPrefetchBatchAsync)(pages, sizes, 1, places, starts, 2, 0, stream));
  CUdeviceptr plain = 0;
  CHECK(D(cuMemAlloc_v2)(&plain, 4096));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemDiscardBatchAsync)(&plain, sizes + 1, 1, 0, stream));
  CHECK(D(cuMemFree_v2)(plain));
  CHECK(D(cuStreamDestroy_v2)(stream));
  for (CUdeviceptr page : pages) CHECK(D(cuMemFree_v2)(page));
}

void CUDA_CB Notified(CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {}

void Notifications() {
  CUasyncCallbackHandle first = nullptr, second = nullptr;
  CHECK(D(cuDeviceRegisterAsyncNotification)(0, Notified, nullptr, &first));
  CHECK(D(cuDeviceRegisterAsyncNotification)(0, Notified, nullptr, &second));
  EXPECT(first != second);
  CODE(CUDA_ERROR_INVALID_DEVICE,
       D(cuDeviceRegisterAsyncNotification)(9, Notified, nullptr, &first));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceRegisterAsyncNotification)(0, nullptr, nullptr, &first));
  CHECK(D(cuDeviceUnregisterAsyncNotification)(0, first));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceUnregisterAsyncNotification)(0, first));
  CHECK(D(cuDeviceUnregisterAsyncNotification)(0, second));
  CODE(CUDA_ERROR_NOT_SUPPORTED, D(cuProfilerInitialize)("a", "b", CU_OUT_CSV));
}

}  // namespace

void MemorySubject() {
  DeferredArrays();
  Decompression();
  ManagedBatches();
  Notifications();
}
