// SPDX-License-Identifier: Apache-2.0
// Memory in stream order and its pools; copies in batches; two devices. Cases by name.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "driver.h"

namespace {

constexpr size_t kMiB = 1 << 20;

__global__ void Add(uint32_t* data, uint32_t value, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] += value;
}

uint64_t Get(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  CHECK(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

cudaMemPool_t MakePool(size_t limit = 0) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.maxSize = limit;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

void Reuse() {
  cudaStream_t stream, other;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&other));
  cudaMemPool_t pool = MakePool();
  void *first = nullptr, *second = nullptr, *third = nullptr;
  CHECK(cudaMallocFromPoolAsync(&first, kMiB, pool, stream));
  EXPECT(Get(pool, cudaMemPoolAttrUsedMemCurrent) == kMiB);
  CHECK(cudaFreeAsync(first, stream));
  EXPECT(Get(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemCurrent) == kMiB);
  CHECK(cudaMallocFromPoolAsync(&second, kMiB, pool, stream));
  EXPECT(second == first);  // the stream's own block, at once
  CHECK(cudaFreeAsync(second, stream));
  CHECK(cudaMallocFromPoolAsync(&third, kMiB, pool, other));
  EXPECT(third != second);  // another stream's order is not known
  EXPECT(Get(pool, cudaMemPoolAttrUsedMemHigh) == kMiB);
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemHigh) == 2 * kMiB);
  CHECK(cudaStreamSynchronize(stream));  // above the threshold of 0: it goes
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemCurrent) == kMiB);
  uint64_t zero = 0, keep = 64 * kMiB;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemHigh) == kMiB);
  EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &keep) != cudaSuccess);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  CHECK(cudaFreeAsync(third, other));
  CHECK(cudaDeviceSynchronize());
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemCurrent) == kMiB);
  CHECK(cudaMemPoolTrimTo(pool, 0));
  EXPECT(Get(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CHECK(cudaMallocFromPoolAsync(&first, kMiB, pool, stream));
  cudaMemPool_t found;
  CU_CHECK(
      CU(cuPointerGetAttribute)(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CUdeviceptr(first)));
  EXPECT(found == pool);
  CHECK(cudaMemPoolDestroy(pool));
  EXPECT(cudaMallocFromPoolAsync(&second, kMiB, pool, stream) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaMemsetAsync(first, 1, kMiB, stream));  // still there
  CHECK(cudaFreeAsync(first, stream));
  CHECK(cudaDeviceSynchronize());
}

void Current() {
  cudaMemPool_t own = MakePool(4 * kMiB), given, fallback;
  CHECK(cudaDeviceGetDefaultMemPool(&fallback, 0));
  CHECK(cudaDeviceSetMemPool(0, own));
  CHECK(cudaDeviceGetMemPool(&given, 0));
  EXPECT(given == own);
  void *block = nullptr, *more = nullptr;
  CHECK(cudaMallocAsync(&block, 3 * kMiB, nullptr));
  EXPECT(Get(own, cudaMemPoolAttrUsedMemCurrent) == 3 * kMiB);
  EXPECT(cudaMallocAsync(&more, 2 * kMiB, nullptr) == cudaErrorMemoryAllocation);  // its own limit
  cudaGetLastError();
  CHECK(cudaFree(block));
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool by_place = nullptr;
  CU_CHECK(CU(cuMemGetMemPool)(&by_place, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT(by_place == own);
  CU_CHECK(CU(cuMemGetDefaultMemPool)(&by_place, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT(by_place == fallback);
  CU_CHECK(CU(cuMemSetMemPool)(&location, CU_MEM_ALLOCATION_TYPE_PINNED, fallback));
  CHECK(cudaDeviceGetMemPool(&given, 0));
  EXPECT(given == fallback);
  EXPECT(cudaMemPoolDestroy(fallback) != cudaSuccess);
  cudaGetLastError();
  cudaMemAccessFlags flags;
  cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  CHECK(cudaMemPoolGetAccess(&flags, own, &device));
  EXPECT(flags == cudaMemAccessFlagsProtReadWrite);
  cudaMemAccessDesc take{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtNone};
  EXPECT(cudaMemPoolSetAccess(own, &take, 1) != cudaSuccess);
  cudaGetLastError();
  int descriptor = -1;
  EXPECT(cudaMemPoolExportToShareableHandle(&descriptor, own, cudaMemHandleTypePosixFileDescriptor,
                                            0) != cudaSuccess);
  cudaGetLastError();
}

// Blocks are used again while kernels of the same stream still run on them, and every value is
// right.
void Churn(size_t threads, size_t rounds) {
  std::vector<std::thread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([rounds, t] {
      CHECK(cudaSetDevice(0));
      cudaStream_t stream;
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      std::vector<uint32_t> host(65536);
      for (size_t i = 0; i < rounds; ++i) {
        uint32_t* block = nullptr;
        cudaError_t status = cudaMallocAsync(&block, host.size() * 4, stream);
        EXPECT(status == cudaSuccess || status == cudaErrorMemoryAllocation);
        cudaGetLastError();
        if (status != cudaSuccess) continue;
        CHECK(cudaMemsetAsync(block, 0, host.size() * 4, stream));
        Add<<<256, 256, 0, stream>>>(block, uint32_t(t * 1000 + i), host.size());
        CHECK(cudaMemcpyAsync(host.data(), block, host.size() * 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(block, stream));
        if (i % 3 != 0) continue;
        CHECK(cudaStreamSynchronize(stream));
        for (uint32_t value : host) EXPECT(value == t * 1000 + i);
      }
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& thread : running) thread.join();
  CHECK(cudaDeviceSynchronize());
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  EXPECT(free == total);
}

void Batch() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  uint32_t *a = nullptr, *b = nullptr, host[4] = {1, 2, 3, 4}, back[4] = {};
  CHECK(cudaMalloc(&a, 16));
  CHECK(cudaMalloc(&b, 16));
  CUdeviceptr up_to[] = {CUdeviceptr(a), CUdeviceptr(a + 2)};
  CUdeviceptr up_from[] = {CUdeviceptr(host), CUdeviceptr(host + 2)};
  size_t sizes[] = {8, 8}, starts[] = {0}, wrong[] = {1}, empty[] = {8, 0}, failed = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  CU_CHECK(CU(cuMemcpyBatchAsync)(up_to, up_from, sizes, 2, &attributes, starts, 1, stream));
  host[0] = 99;
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CUdeviceptr to[] = {CUdeviceptr(b), CUdeviceptr(back)}, from[] = {CUdeviceptr(a), CUdeviceptr(a)};
  CU_CHECK(CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &attributes, starts, 1, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(back[0] == 1 && back[1] == 2);
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &attributes, wrong, 1, stream));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemcpyBatchAsync)(to, from, empty, 2, &attributes, starts, 1, stream));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &attributes, starts, 1, nullptr));
  (void)failed;

  CUDA_MEMCPY3D_BATCH_OP box{};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = CUdeviceptr(a);
  box.src.op.ptr.rowLength = 8;
  box.dst.op.ptr.ptr = CUdeviceptr(back);
  box.extent = {4, 2, 1};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CU_CHECK(CU(cuMemcpy3DBatchAsync)(1, &box, 0, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(back[0] == 1 && back[1] == 3);
  box.extent.depth = 0;
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpy3DBatchAsync)(1, &box, 0, stream));
}

void Peers() {
  int count = 0, can = 0;
  CHECK(cudaGetDeviceCount(&count));
  EXPECT(count == 2);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 1);
  uint32_t *there = nullptr, *later = nullptr, host = 0;
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&there, 4));
  CHECK(cudaMemset(there, 0, 4));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  EXPECT(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  cudaGetLastError();
  CHECK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  cudaGetLastError();
  EXPECT(cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess);
  cudaGetLastError();
  Add<<<1, 1>>>(there, 5, 1);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&host, there, 4, cudaMemcpyDeviceToHost));
  EXPECT(host == 5);
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&later, 200 * kMiB));  // credit that was granted after
  CHECK(cudaMemset(later, 0, 4));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  Add<<<1, 1>>>(later, 6, 1);
  CHECK(cudaMemcpyPeer(there, 1, later, 1, 4));
  CHECK(cudaMemcpy(&host, there, 4, cudaMemcpyDeviceToHost));
  EXPECT(host == 6);
  CHECK(cudaDeviceDisablePeerAccess(1));
  cudaMemcpy3DPeerParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(later, 4, 4, 1);
  copy.dstPtr = make_cudaPitchedPtr(there, 4, 4, 1);
  copy.srcDevice = copy.dstDevice = 1;
  copy.extent = make_cudaExtent(4, 1, 1);
  CHECK(cudaMemcpy3DPeer(&copy));
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  if (std::strcmp(argv[1], "reuse") == 0) Reuse();
  if (std::strcmp(argv[1], "current") == 0) Current();
  if (std::strcmp(argv[1], "churn") == 0) Churn(std::atoi(argv[2]), std::atoi(argv[3]));
  if (std::strcmp(argv[1], "batch") == 0) Batch();
  if (std::strcmp(argv[1], "peers") == 0) Peers();
  std::printf("done\n");
  return 0;
}
