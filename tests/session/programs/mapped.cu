// SPDX-License-Identifier: Apache-2.0
// Memory the program reserves, makes and maps itself. Cases by name.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "driver.h"

namespace {

constexpr size_t kPiece = 4 << 20;

__global__ void Fill(uint32_t* data, uint32_t value, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] = value + uint32_t(i);
}

CUmemAllocationProp Properties(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = types;
  return properties;
}

CUmemGenericAllocationHandle Make(size_t bytes) {
  CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CU_CHECK(CU(cuMemCreate)(&handle, bytes, &properties, 0));
  return handle;
}

void Allow(CUdeviceptr at, size_t bytes) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CU_CHECK(CU(cuMemSetAccess)(at, bytes, &access, 1));
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

// A segment grows piece by piece under one address; kernels and copies cross the seams.
void Segment() {
  int supported = 0;
  CU_CHECK(CU(cuDeviceGetAttribute)(&supported,
                                    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  EXPECT(supported == 1);
  CUmemAllocationProp properties = Properties();
  size_t granularity = 0;
  CU_CHECK(CU(cuMemGetAllocationGranularity)(&granularity, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT(kPiece % granularity == 0);
  size_t before = FreeBytes();
  CUdeviceptr base = 0;
  CU_CHECK(CU(cuMemAddressReserve)(&base, 64 * kPiece, 0, 0, 0));
  CUmemGenericAllocationHandle pieces[3];
  for (int i = 0; i < 3; ++i) {
    pieces[i] = Make(kPiece);
    CU_CHECK(CU(cuMemMap)(base + i * kPiece, kPiece, 0, pieces[i], 0));
    EXPECT(cudaMemset(reinterpret_cast<void*>(base + i * kPiece), 0, 16) != cudaSuccess);
    Allow(base + i * kPiece, kPiece);
    // The mapping keeps it.
    CU_CHECK(CU(cuMemRelease)(pieces[i]));
    CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemRelease)(pieces[i]));
  }
  EXPECT(before - FreeBytes() == 3 * kPiece);
  size_t count = 3 * kPiece / 4;
  auto* data = reinterpret_cast<uint32_t*>(base);
  Fill<<<(count + 255) / 256, 256>>>(data, 7, count);
  std::vector<uint32_t> host(count);
  CHECK(cudaMemcpy(host.data(), data, count * 4, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < count; ++i) EXPECT(host[i] == 7 + uint32_t(i));
  CHECK(cudaMemcpy(data + 1, host.data(), (count - 1) * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(data, 0, 4));
  CHECK(cudaMemcpy(host.data(), data, count * 4, cudaMemcpyDeviceToHost));
  EXPECT(host[0] == 0 && host[count - 1] == 7 + uint32_t(count - 2));

  unsigned long long flags = 0;
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CU_CHECK(CU(cuMemGetAccess)(&flags, &device, base + kPiece));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemGenericAllocationHandle again = 0;
  CU_CHECK(CU(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(base + kPiece + 8)));
  EXPECT(again == pieces[1]);
  CUmemAllocationProp told{};
  CU_CHECK(CU(cuMemGetAllocationPropertiesFromHandle)(&told, again));
  EXPECT(told.location.id == 0 && told.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(base + kPiece)));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);

  CHECK(cudaDeviceSynchronize());
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemUnmap)(base, kPiece / 2));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAddressFree)(base, 64 * kPiece));
  CU_CHECK(CU(cuMemUnmap)(base, 3 * kPiece));
  EXPECT(before - FreeBytes() == kPiece);  // `again` keeps its piece
  EXPECT(cudaMemset(data, 0, 4) != cudaSuccess);
  // Its bytes are still there, at another address.
  CU_CHECK(CU(cuMemMap)(base + 8 * kPiece, kPiece, 0, again, 0));
  Allow(base + 8 * kPiece, kPiece);
  uint32_t first = 0;
  CHECK(cudaMemcpy(&first, reinterpret_cast<void*>(base + 8 * kPiece), 4, cudaMemcpyDeviceToHost));
  EXPECT(first == 7 + uint32_t(kPiece / 4 - 1));
  CU_CHECK(CU(cuMemUnmap)(base + 8 * kPiece, kPiece));
  CU_CHECK(CU(cuMemRelease)(again));
  CU_CHECK(CU(cuMemAddressFree)(base, 64 * kPiece));
  EXPECT(FreeBytes() == before);
}

void Refusals() {
  CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0, other = 0;
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAddressReserve)(&base, 4096, 0, 0, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAddressReserve)(&base, kPiece, 3 << 20, 0, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate)(&handle, 4096, &properties, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate)(&handle, kPiece, &properties, 1));
  properties.location.id = 77;
  CU_FAILS(CUDA_ERROR_INVALID_DEVICE, CU(cuMemCreate)(&handle, kPiece, &properties, 0));
  properties = Properties(CU_MEM_HANDLE_TYPE_FABRIC);
  CU_FAILS(CUDA_ERROR_NOT_SUPPORTED, CU(cuMemCreate)(&handle, kPiece, &properties, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemRelease)(12345));

  CU_CHECK(CU(cuMemAddressReserve)(&base, 4 * kPiece, 0, 0, 0));
  CU_CHECK(CU(cuMemAddressReserve)(&other, kPiece, kPiece * 16, 0, 0));
  EXPECT(other % (kPiece * 16) == 0);
  handle = Make(kPiece);
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(base, 2 * kPiece, 0, handle, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(base + 3, kPiece, 0, handle, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(base + 4 * kPiece, kPiece, 0, handle, 0));
  CU_CHECK(CU(cuMemMap)(base, kPiece, 0, handle, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(base, kPiece, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemSetAccess)(base, 2 * kPiece, &access, 1));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree)(base));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemUnmap)(other, kPiece));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAddressFree)(base, kPiece));
  CUdeviceptr hinted = 0;
  CU_CHECK(CU(cuMemAddressFree)(other, kPiece));
  CU_CHECK(CU(cuMemAddressReserve)(&hinted, kPiece, 0, other, 0));
  EXPECT(hinted == other);
  CHECK(cudaDeviceSynchronize());
}

// Threads make and release memory of their own until the quota refuses, together with cudaMalloc.
void Race(size_t threads, size_t rounds) {
  std::vector<std::thread> running;
  std::vector<size_t> made(threads), refused(threads);
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      CHECK(cudaSetDevice(0));
      CUmemAllocationProp properties = Properties();
      CUdeviceptr base = 0;
      CU_CHECK(CU(cuMemAddressReserve)(&base, kPiece, 0, 0, 0));
      for (size_t i = 0; i < rounds; ++i) {
        if ((t + i) % 4 == 0) {
          void* plain = nullptr;
          cudaError_t status = cudaMalloc(&plain, kPiece);
          EXPECT(status == cudaSuccess || status == cudaErrorMemoryAllocation);
          if (status == cudaSuccess) CHECK(cudaFree(plain));
          cudaGetLastError();
          continue;
        }
        CUmemGenericAllocationHandle handle = 0;
        CUresult status = CU(cuMemCreate)(&handle, kPiece, &properties, 0);
        EXPECT(status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY);
        ++(status == CUDA_SUCCESS ? made : refused)[t];
        if (status != CUDA_SUCCESS) continue;
        CU_CHECK(CU(cuMemMap)(base, kPiece, 0, handle, 0));
        Allow(base, kPiece);
        CHECK(cudaMemset(reinterpret_cast<void*>(base), int(t), kPiece));
        CHECK(cudaDeviceSynchronize());
        CU_CHECK(CU(cuMemUnmap)(base, kPiece));
        CU_CHECK(CU(cuMemRelease)(handle));
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  size_t all = 0, none = 0;
  for (size_t t = 0; t < threads; ++t) all += made[t], none += refused[t];
  CHECK(cudaDeviceSynchronize());
  std::printf("made %zu refused %zu free %zu\n", all, none, FreeBytes());
}

// All that --mem gives, to the byte, also when it was cudaMalloc's before.
void Exact() {
  void* plain = nullptr;
  size_t free = FreeBytes();
  CHECK(cudaMalloc(&plain, free - kPiece));
  CHECK(cudaFree(plain));
  std::vector<CUmemGenericAllocationHandle> all;
  CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  while (CU(cuMemCreate)(&handle, kPiece, &properties, 0) == CUDA_SUCCESS) all.push_back(handle);
  EXPECT(all.size() == free / kPiece);
  EXPECT(cudaMalloc(&plain, kPiece) == cudaErrorMemoryAllocation);
  EXPECT(FreeBytes() == free - all.size() * kPiece);
  CU_CHECK(CU(cuMemRelease)(all.back()));
  CHECK(cudaMalloc(&plain, kPiece));
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  if (std::strcmp(argv[1], "segment") == 0) Segment();
  if (std::strcmp(argv[1], "refusals") == 0) Refusals();
  if (std::strcmp(argv[1], "exact") == 0) Exact();
  if (std::strcmp(argv[1], "race") == 0) Race(std::atoi(argv[2]), std::atoi(argv[3]));
  std::printf("done\n");
  return 0;
}
