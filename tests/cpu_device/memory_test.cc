// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

TEST_F(DriverTest, AllocationIsChargedAndRefundedExactly) {
  const size_t before = FreeBytes();
  const CUdeviceptr small = Allocate(1), large = Allocate(10 << 20);
  EXPECT_EQ(small % 512, 0u);
  EXPECT_EQ(before - FreeBytes(), 512u + (10u << 20));
  EXPECT_OK(CU(cuMemFree_v2)(small));
  EXPECT_OK(CU(cuMemFree_v2)(large));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(CU(cuMemFree_v2)(large), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemFree_v2)(0));
}

TEST_F(DriverTest, NoByteBeyondTheDevicesMemory) {
  CUdeviceptr address = 0;
  const size_t all = FreeBytes();
  EXPECT_EQ(CU(cuMemAlloc_v2)(&address, all + 1), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_OK(CU(cuMemAlloc_v2)(&address, all));
  EXPECT_EQ(FreeBytes(), 0u);
  CUdeviceptr more = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(CU(cuMemFree_v2)(address));
  EXPECT_EQ(CU(cuMemAlloc_v2)(&more, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, CopiesArriveAndStayInTheirAllocation) {
  std::vector<int> out(1000), in(1000);
  std::iota(out.begin(), out.end(), 5);
  const CUdeviceptr a = Allocate(4000), b = Allocate(4000);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(a, out.data(), 4000));
  ASSERT_OK(CU(cuMemcpyDtoD_v2)(b, a, 4000));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(in.data(), b, 4000));
  EXPECT_EQ(in, out);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(a, out.data(), 4001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(0x1000, out.data(), 4), CUDA_ERROR_INVALID_VALUE);
  // The unified call tells host from device by the address.
  std::fill(in.begin(), in.end(), 0);
  ASSERT_OK(CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(in.data()), a, 4000));
  EXPECT_EQ(in, out);
}

TEST_F(DriverTest, BoxCopiesMoveTheirBoxAndNothingElse) {
  constexpr size_t kPitch = 64, kRows = 8;
  std::vector<unsigned char> host(kPitch * kRows, 7), back(kPitch * kRows, 0);
  const CUdeviceptr device = Allocate(kPitch * kRows);
  ASSERT_OK(CU(cuMemsetD8_v2)(device, 1, kPitch * kRows));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = kPitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = kPitch;
  copy.dstXInBytes = 3;
  copy.dstY = 2;
  copy.WidthInBytes = 10;
  copy.Height = 4;
  ASSERT_OK(CU(cuMemcpy2D_v2)(&copy));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(back.data(), device, back.size()));
  for (size_t y = 0; y < kRows; ++y) {
    for (size_t x = 0; x < kPitch; ++x) {
      const bool inside = y >= 2 && y < 6 && x >= 3 && x < 13;
      ASSERT_EQ(back[y * kPitch + x], inside ? 7 : 1) << x << "," << y;
    }
  }
  copy.Height = 7;  // the last row would lie beyond the allocation
  EXPECT_EQ(CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, MemsetsFillTheirElements) {
  const CUdeviceptr device = Allocate(256);
  unsigned words[64];
  ASSERT_OK(CU(cuMemsetD32_v2)(device, 0x01020304, 64));
  ASSERT_OK(CU(cuMemsetD16_v2)(device + 8, 0xabcd, 2));
  ASSERT_OK(CU(cuMemsetD2D8_v2)(device + 64, 32, 0xff, 1, 2));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(words, device, sizeof(words)));
  EXPECT_EQ(words[0], 0x01020304u);
  EXPECT_EQ(words[2], 0xabcdabcdu);
  EXPECT_EQ(words[16], 0x010203ffu);
  EXPECT_EQ(words[24], 0x010203ffu);
  EXPECT_EQ(words[17], 0x01020304u);
  EXPECT_EQ(CU(cuMemsetD32_v2)(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemsetD8_v2)(device, 0, 257), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, PointersTellWhatTheyAre) {
  const CUdeviceptr device = Allocate(4096);
  void* pinned = nullptr;
  ASSERT_OK(CU(cuMemHostAlloc)(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
  unsigned type = 0;
  ASSERT_OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 100));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  ASSERT_OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  int local = 0;
  EXPECT_EQ(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  ASSERT_OK(CU(cuMemGetAddressRange_v2)(&base, &bytes, device + 100));
  EXPECT_EQ(base, device);
  EXPECT_EQ(bytes, 4096u);
  CUdeviceptr mapped = 0;
  ASSERT_OK(CU(cuMemHostGetDevicePointer_v2)(&mapped, pinned, 0));
  EXPECT_EQ(mapped, reinterpret_cast<CUdeviceptr>(pinned));
  // Memory of the driver's own has a range on either side.
  ASSERT_OK(CU(cuMemGetAddressRange_v2)(&base, &bytes, mapped + 7));
  EXPECT_EQ(base, mapped);
  EXPECT_EQ(bytes, 100u);
  EXPECT_OK(CU(cuMemFreeHost)(pinned));
  EXPECT_EQ(CU(cuMemFreeHost)(pinned), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, RegisteredMemoryIsPinnedUntilItIsNot) {
  std::vector<char> memory(10000);
  ASSERT_OK(CU(cuMemHostRegister_v2)(memory.data(), memory.size(), 0));
  EXPECT_EQ(CU(cuMemHostRegister_v2)(memory.data(), 10, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  unsigned flags = 0;
  EXPECT_OK(CU(cuMemHostGetFlags)(&flags, memory.data()));
  EXPECT_OK(CU(cuMemHostUnregister)(memory.data()));
  EXPECT_EQ(CU(cuMemHostUnregister)(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(reinterpret_cast<void*>(0x1000), 4096, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, KernelsReachRegisteredMemoryUntilItIsNot) {
  CUmodule module = nullptr;
  const CUresult loaded = CU(cuModuleLoadData)(&module, Ptx());
  if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
  ASSERT_OK(loaded);
  CUfunction scale = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction)(&scale, module, "scale"));
  std::vector<int> first(4096, 2), second(4096, 3);
  int factor = 5, count = 4096;
  auto run = [&](std::vector<int>& memory) {
    CUdeviceptr address = reinterpret_cast<CUdeviceptr>(memory.data());
    void* params[] = {&address, &factor, &count};
    EXPECT_OK(CU(cuLaunchKernel)(scale, 64, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
    return CU(cuCtxSynchronize)();
  };
  for (std::vector<int>* memory : {&first, &second}) {
    ASSERT_OK(CU(cuMemHostRegister_v2)(memory->data(), 4096 * sizeof(int), 0));
    ASSERT_OK(run(*memory));
  }
  EXPECT_EQ(first, std::vector<int>(4096, 10));
  EXPECT_EQ(second, std::vector<int>(4096, 15));
  // The thread that has just found it asks again.
  ASSERT_OK(CU(cuMemHostUnregister)(second.data()));
  EXPECT_OK(run(first));
  EXPECT_EQ(run(second), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(second, std::vector<int>(4096, 15));
}

// Runs `scale` with factor 5 on `count` ints at `address`, in blocks of 64.
class HostMemoryTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CUmodule module = nullptr;
    const CUresult loaded = CU(cuModuleLoadData)(&module, Ptx());
    if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
    ASSERT_OK(loaded);
    ASSERT_OK(CU(cuModuleGetFunction)(&scale_, module, "scale"));
  }
  CUresult Scale(const void* address, int count) {
    int factor = 5;
    void* params[] = {&address, &factor, &count};
    const unsigned blocks = static_cast<unsigned>(count + 63) / 64;
    EXPECT_OK(CU(cuLaunchKernel)(scale_, blocks, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
    return CU(cuCtxSynchronize)();
  }
  CUfunction scale_ = nullptr;
};

TEST_F(HostMemoryTest, KernelsReachPageLockedMemoryToItsLastByte) {
  constexpr int kCount = 1000;  // no whole page
  void* memory = nullptr;
  ASSERT_OK(CU(cuMemHostAlloc)(&memory, kCount * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
  int* words = static_cast<int*>(memory);
  std::fill(words, words + kCount + 1, 2);
  ASSERT_OK(Scale(words, kCount));
  EXPECT_EQ(std::vector<int>(words, words + kCount), std::vector<int>(kCount, 10));
  EXPECT_EQ(Scale(words, kCount + 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(words[kCount], 2);
}

TEST_F(HostMemoryTest, FreedPageLockedMemoryIsNoLongerTheirs) {
  constexpr int kCount = 4096;
  void *kept = nullptr, *freed = nullptr;
  for (void** memory : {&kept, &freed}) {
    ASSERT_OK(CU(cuMemHostAlloc)(memory, kCount * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    ASSERT_OK(Scale(*memory, kCount));
  }
  ASSERT_OK(CU(cuMemFreeHost)(freed));
  // What comes to lie there is the host's own, not the device's.
  void* own = mmap(freed, kCount * sizeof(int), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(own, freed);
  EXPECT_OK(Scale(kept, kCount));
  EXPECT_EQ(Scale(freed, kCount), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(static_cast<int*>(own)[0], 0);
  munmap(own, kCount * sizeof(int));
}

TEST_F(DriverTest, ManagedMemoryIsTheHostsToo) {
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemAllocManaged)(&address, 4096, CU_MEM_ATTACH_GLOBAL));
  ASSERT_OK(CU(cuMemsetD32_v2)(address, 9, 1024));
  ASSERT_OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(reinterpret_cast<int*>(address)[1023], 9);
  EXPECT_OK(CU(cuMemFree_v2)(address));
}

TEST_F(DriverTest, PoolsCountWhatTheyGave) {
  CUmemoryPool pool = nullptr;
  ASSERT_OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
  CUstream stream = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  const size_t before = FreeBytes();
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemAllocAsync)(&address, 1 << 20, stream));
  cuuint64_t used = 0;
  ASSERT_OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 1u << 20);
  ASSERT_OK(CU(cuMemsetD8Async)(address, 3, 1 << 20, stream));
  ASSERT_OK(CU(cuMemFreeAsync)(address, stream));
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(FreeBytes(), before);
  ASSERT_OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0u);
  EXPECT_OK(CU(cuMemFreeAsync)(0, stream));
  EXPECT_OK(CU(cuMemFreeAsync)(0, nullptr));
  EXPECT_OK(CU(cuStreamDestroy_v2)(stream));
}

}  // namespace
}  // namespace farcall::cpu_device
