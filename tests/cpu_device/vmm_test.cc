// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr size_t kChunk = 2 << 20;

class VmmTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_.location.id = 0;
    prop_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }

  CUresult Allow(CUdeviceptr address, size_t bytes,
                 CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc access{};
    access.location = prop_.location;
    access.flags = flags;
    return CU(cuMemSetAccess)(address, bytes, &access, 1);
  }

  CUmemAllocationProp prop_{};
};

TEST_F(VmmTest, GranularityIsTwoMebibytes) {
  size_t granularity = 0;
  ASSERT_OK(
      CU(cuMemGetAllocationGranularity)(&granularity, &prop_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, kChunk);
}

TEST_F(VmmTest, AFreeHintIsHonouredExactlyAndATakenOneIsNot) {
  CUdeviceptr probe = 0, first = 0, second = 0;
  ASSERT_OK(CU(cuMemAddressReserve)(&probe, 64 * kChunk, 0, 0, 0));
  ASSERT_OK(CU(cuMemAddressFree)(probe, 64 * kChunk));
  ASSERT_OK(CU(cuMemAddressReserve)(&first, 4 * kChunk, 0, probe, 0));
  EXPECT_EQ(first, probe);
  ASSERT_OK(CU(cuMemAddressReserve)(&second, 4 * kChunk, 0, probe, 0));
  EXPECT_NE(second, probe);
  EXPECT_EQ(second % kChunk, 0u);
  EXPECT_EQ(CU(cuMemAddressFree)(first, kChunk), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemAddressFree)(first, 4 * kChunk));
  EXPECT_OK(CU(cuMemAddressFree)(second, 4 * kChunk));
}

TEST_F(VmmTest, ALargeReservationCostsNothing) {
  const size_t before = FreeBytes();
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemAddressReserve)(&address, 1ull << 40, 0, 0, 0));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_OK(CU(cuMemAddressFree)(address, 1ull << 40));
}

TEST_F(VmmTest, MappedMemoryHoldsDataAndCopiesNeedAccess) {
  const size_t before = FreeBytes();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handles[2];
  ASSERT_OK(CU(cuMemAddressReserve)(&address, 4 * kChunk, 0, 0, 0));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(CU(cuMemCreate)(&handles[i], kChunk, &prop_, 0));
    ASSERT_OK(CU(cuMemMap)(address + i * kChunk, kChunk, 0, handles[i], 0));
  }
  EXPECT_EQ(before - FreeBytes(), 2 * kChunk);
  std::vector<unsigned char> data(2 * kChunk, 5), back(2 * kChunk);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(address, data.data(), 16), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(Allow(address, 2 * kChunk));
  // One copy over both mappings, none beyond.
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(address, data.data(), data.size()));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(back.data(), address, back.size()));
  EXPECT_EQ(back, data);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(address + kChunk, data.data(), kChunk + 1),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(Allow(address, kChunk, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(address, data.data(), 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemcpyDtoH_v2)(back.data(), address, 16));
  unsigned long long flags = 0;
  ASSERT_OK(CU(cuMemGetAccess)(&flags, &prop_.location, address));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ));
  // A released handle's memory lives while it is mapped.
  for (auto handle : handles) EXPECT_OK(CU(cuMemRelease)(handle));
  EXPECT_EQ(before - FreeBytes(), 2 * kChunk);
  EXPECT_EQ(CU(cuMemAddressFree)(address, 4 * kChunk), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemUnmap)(address, 2 * kChunk));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_OK(CU(cuMemAddressFree)(address, 4 * kChunk));
}

TEST_F(VmmTest, MapRefusesOverlapAndStrangers) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle;
  ASSERT_OK(CU(cuMemAddressReserve)(&address, 2 * kChunk, 0, 0, 0));
  ASSERT_OK(CU(cuMemCreate)(&handle, kChunk, &prop_, 0));
  ASSERT_OK(CU(cuMemMap)(address, kChunk, 0, handle, 0));
  EXPECT_EQ(CU(cuMemMap)(address, kChunk, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(address + kChunk, kChunk, kChunk, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(address + 2 * kChunk, kChunk, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(address + kChunk, kChunk, 0, 0xdead, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemCreate)(&handle, 4096, &prop_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemUnmap)(address, 2 * kChunk), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemUnmap)(address, kChunk));
  EXPECT_OK(CU(cuMemRelease)(handle));
  EXPECT_OK(CU(cuMemAddressFree)(address, 2 * kChunk));
}

TEST_F(VmmTest, UnmappedAddressesFault) {
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemAddressReserve)(&address, kChunk, 0, 0, 0));
  EXPECT_EXIT(*reinterpret_cast<volatile int*>(address) = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_OK(CU(cuMemAddressFree)(address, kChunk));
}

TEST_F(VmmTest, ADescriptorCarriesTheMemoryToAnotherMapping) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle, imported;
  ASSERT_OK(CU(cuMemAddressReserve)(&address, 2 * kChunk, 0, 0, 0));
  ASSERT_OK(CU(cuMemCreate)(&handle, kChunk, &prop_, 0));
  ASSERT_OK(CU(cuMemMap)(address, kChunk, 0, handle, 0));
  int fd = -1;
  ASSERT_OK(
      CU(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  const size_t before = FreeBytes();
  ASSERT_OK(CU(cuMemImportFromShareableHandle)(&imported,
                                               reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  EXPECT_EQ(FreeBytes(), before);
  ASSERT_OK(CU(cuMemMap)(address + kChunk, kChunk, 0, imported, 0));
  ASSERT_OK(Allow(address, 2 * kChunk));
  ASSERT_OK(CU(cuMemsetD32_v2)(address, 77, 4));
  int value = 0;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&value, address + kChunk, 4));
  EXPECT_EQ(value, 77);
  // Some other descriptor is none of ours.
  EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&imported, reinterpret_cast<void*>(intptr_t{0}),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemUnmap)(address, 2 * kChunk));
  EXPECT_OK(CU(cuMemAddressFree)(address, 2 * kChunk));
}

TEST_F(VmmTest, RetainFindsTheHandleOfAnAddress) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle, retained;
  const size_t before = FreeBytes();
  ASSERT_OK(CU(cuMemAddressReserve)(&address, kChunk, 0, 0, 0));
  ASSERT_OK(CU(cuMemCreate)(&handle, kChunk, &prop_, 0));
  ASSERT_OK(CU(cuMemMap)(address, kChunk, 0, handle, 0));
  ASSERT_OK(CU(cuMemRelease)(handle));
  ASSERT_OK(CU(cuMemRetainAllocationHandle)(&retained, reinterpret_cast<void*>(address + 5)));
  EXPECT_EQ(retained, handle);
  ASSERT_OK(CU(cuMemUnmap)(address, kChunk));
  EXPECT_EQ(before - FreeBytes(), kChunk);
  CUmemAllocationProp prop;
  ASSERT_OK(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, retained));
  EXPECT_EQ(prop.location.id, 0);
  ASSERT_OK(CU(cuMemRelease)(retained));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_OK(CU(cuMemAddressFree)(address, kChunk));
}

class MulticastTest : public VmmTest {
 protected:
  CUmemGenericAllocationHandle Piece(int device, size_t bytes) {
    CUmemGenericAllocationHandle piece = 0;
    prop_.location.id = device;
    EXPECT_OK(CU(cuMemCreate)(&piece, bytes, &prop_, 0));
    return piece;
  }
  CUmemGenericAllocationHandle Object(unsigned devices) {
    CUmulticastObjectProp prop{};
    prop.numDevices = devices;
    prop.size = 4 * kChunk;
    CUmemGenericAllocationHandle object = 0;
    EXPECT_OK(CU(cuMulticastCreate)(&object, &prop));
    return object;
  }
};

TEST_F(MulticastTest, WhatIsBoundLivesUntilItIsUnbound) {
  const size_t before = FreeBytes();
  const CUmemGenericAllocationHandle object = Object(2), first = Piece(0, 2 * kChunk),
                                     second = Piece(1, 2 * kChunk);
  EXPECT_OK(CU(cuMulticastAddDevice)(object, 0));
  EXPECT_EQ(CU(cuMulticastAddDevice)(object, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMulticastAddDevice)(object, 1));
  EXPECT_OK(CU(cuMulticastBindMem)(object, 0, first, kChunk, kChunk, 0));
  EXPECT_OK(CU(cuMulticastBindMem)(object, 0, second, 0, kChunk, 0));
  EXPECT_EQ(CU(cuMulticastBindMem)(object, 0, first, 0, kChunk, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemRelease)(first));
  EXPECT_EQ(before - FreeBytes(), 2 * kChunk);
  EXPECT_EQ(CU(cuMulticastUnbind)(object, 0, kChunk, kChunk), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMulticastUnbind)(object, 0, 0, kChunk));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_OK(CU(cuMemRelease)(second));
  EXPECT_OK(CU(cuMemRelease)(object));
  EXPECT_EQ(CU(cuMulticastAddDevice)(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MulticastTest, OnlyMultimemInstructionsHaveBusinessThere) {
  const CUmemGenericAllocationHandle object = Object(1), piece = Piece(0, kChunk);
  EXPECT_OK(CU(cuMulticastAddDevice)(object, 0));
  EXPECT_OK(CU(cuMulticastBindMem)(object, 0, piece, 0, kChunk, 0));
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemAddressReserve)(&address, 4 * kChunk, 0, 0, 0));
  ASSERT_OK(CU(cuMemMap)(address, 4 * kChunk, 0, object, 0));
  ASSERT_OK(Allow(address, 4 * kChunk));
  unsigned long long flags = 0;
  EXPECT_OK(CU(cuMemGetAccess)(&flags, &prop_.location, address));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  int value = 0;
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(address, &value, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemsetD8_v2)(address, 1, 4), CUDA_ERROR_INVALID_VALUE);
  int descriptor = -1;
  EXPECT_EQ(CU(cuMemExportToShareableHandle)(&descriptor, object,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);  // it was not asked to be shareable
  EXPECT_OK(CU(cuMemUnmap)(address, 4 * kChunk));
  EXPECT_OK(CU(cuMemAddressFree)(address, 4 * kChunk));
  EXPECT_OK(CU(cuMemRelease)(object));
  EXPECT_OK(CU(cuMemRelease)(piece));
}

}  // namespace
}  // namespace farcall::cpu_device
