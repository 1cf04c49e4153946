// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

TEST_F(DriverTest, DescribesItself) {
  int count = 0, major = 0;
  ASSERT_OK(CU(cuDeviceGetCount)(&count));
  EXPECT_EQ(count, 2);
  ASSERT_OK(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(major, 13);
  size_t total = 0;
  ASSERT_OK(CU(cuDeviceTotalMem_v2)(&total, 0));
  EXPECT_EQ(total, 256u << 20);
  CUuuid first, second;
  ASSERT_OK(CU(cuDeviceGetUuid_v2)(&first, 0));
  ASSERT_OK(CU(cuDeviceGetUuid_v2)(&second, 1));
  EXPECT_NE(memcmp(&first, &second, sizeof(first)), 0);
  EXPECT_EQ(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(CU(cuDeviceGetAttribute)(&major, static_cast<CUdevice_attribute>(9999), 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, PciIdLeadsBackToItsDevice) {
  char id[32];
  CUdevice device = -1;
  ASSERT_OK(CU(cuDeviceGetPCIBusId)(id, sizeof(id), 1));
  ASSERT_OK(CU(cuDeviceGetByPCIBusId)(&device, id));
  EXPECT_EQ(device, 1);
  EXPECT_EQ(CU(cuDeviceGetByPCIBusId)(&device, "0000:7f:00.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(CU(cuDeviceGetByPCIBusId)(&device, "nonsense"), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, ProcAddressGivesExactlyWhatIsImplemented) {
  void* entry = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_OK(CU(cuGetProcAddress_v2)("cuMemAlloc", &entry, 13000, 0, &status));
  EXPECT_EQ(entry, dlsym(Library(), "cuMemAlloc_v2"));
  ASSERT_OK(CU(cuGetProcAddress_v2)("cuStreamSynchronize", &entry, 13000,
                                    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  EXPECT_EQ(entry, dlsym(Library(), "cuStreamSynchronize_ptsz"));
  // It is exported, answers NOT_SUPPORTED, and a probe does not see it.
  ASSERT_OK(CU(cuGetProcAddress_v2)("cuImportExternalMemory", &entry, 13000, 0, &status));
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(CU(cuGetProcAddress)("cuImportExternalMemory", &entry, 13000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(CU(cuImportExternalMemory)(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_OK(CU(cuGetProcAddress_v2)("cuMemAlloc", &entry, 1000, 0, &status));
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST_F(DriverTest, ContextStackIsTheThreads) {
  CUcontext made = nullptr, current = nullptr;
  ASSERT_OK(CU(cuCtxCreate_v2)(&made, 0, 1));
  ASSERT_OK(CU(cuCtxGetCurrent)(&current));
  EXPECT_EQ(current, made);
  std::thread other([&] {
    CUcontext seen = made;
    EXPECT_OK(CU(cuCtxGetCurrent)(&seen));
    EXPECT_EQ(seen, nullptr);
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&address, 64), CUDA_ERROR_INVALID_CONTEXT);
  });
  other.join();
  CUdevice device = -1;
  ASSERT_OK(CU(cuCtxGetDevice)(&device));
  EXPECT_EQ(device, 1);
  ASSERT_OK(CU(cuCtxPopCurrent_v2)(&current));
  ASSERT_OK(CU(cuCtxGetCurrent)(&current));
  EXPECT_EQ(current, context_);
  ASSERT_OK(CU(cuCtxDestroy_v2)(made));
  EXPECT_EQ(CU(cuCtxPushCurrent_v2)(made), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DriverTest, PrimaryContextThatNobodyHoldsTellsItsDevice) {
  CUdevice device = -1;
  ASSERT_OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
  EXPECT_OK(CU(cuCtxGetDevice)(&device));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_OK(CU(cuDevicePrimaryCtxRetain)(&context_, 0));
}

TEST_F(DriverTest, DestroyedContextGivesItsMemoryBack) {
  CUcontext made = nullptr;
  const size_t before = FreeBytes();
  ASSERT_OK(CU(cuCtxCreate_v2)(&made, 0, 0));
  Allocate(1 << 20);
  EXPECT_LT(FreeBytes(), before);
  ASSERT_OK(CU(cuCtxDestroy_v2)(made));
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(DriverTest, LimitsAreKept) {
  size_t value = 0;
  ASSERT_OK(CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 21));
  ASSERT_OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  EXPECT_EQ(value, 1u << 21);
  EXPECT_EQ(CU(cuCtxGetLimit)(&value, static_cast<CUlimit>(77)), CUDA_ERROR_UNSUPPORTED_LIMIT);
  ASSERT_OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_CIG_ENABLED));
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(CU(cuCtxSetLimit)(CU_LIMIT_CIG_ENABLED, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(DriverTest, AForkedChildIsNotInitialised) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    int count = 0;
    const bool refused = CU(cuMemAlloc_v2)(&address, 64) == CUDA_ERROR_NOT_INITIALIZED &&
                         CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                         CU(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GT(FreeBytes(), 0u);
}

}  // namespace
}  // namespace farcall::cpu_device
