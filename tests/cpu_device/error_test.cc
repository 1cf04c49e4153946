// SPDX-License-Identifier: Apache-2.0
#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

TEST_F(DriverTest, AKernelsFaultBreaksItsContextUntilReset) {
  CUmodule module = nullptr;
  const CUresult loaded = CU(cuModuleLoadData)(&module, Ptx());
  if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
  ASSERT_OK(loaded);
  CUfunction poke = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction)(&poke, module, "poke"));
  CUdeviceptr bad = 64;
  void* params[] = {&bad};
  ASSERT_OK(CU(cuLaunchKernel)(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&address, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuStreamQuery)(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuLaunchKernel)(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  // The other device's context is whole.
  CUcontext other = nullptr;
  ASSERT_OK(CU(cuCtxCreate_v2)(&other, 0, 1));
  EXPECT_OK(CU(cuMemAlloc_v2)(&address, 64));
  ASSERT_OK(CU(cuCtxDestroy_v2)(other));
  ASSERT_OK(CU(cuDevicePrimaryCtxReset_v2)(0));
  EXPECT_OK(CU(cuMemAlloc_v2)(&address, 64));
}

TEST_F(DriverTest, WrongHandlesAreErrors) {
  EXPECT_EQ(CU(cuStreamSynchronize)(reinterpret_cast<CUstream>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(CU(cuEventQuery)(reinterpret_cast<CUevent>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(CU(cuModuleUnload)(reinterpret_cast<CUmodule>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(CU(cuCtxSetCurrent)(reinterpret_cast<CUcontext>(0x1234)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(CU(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace farcall::cpu_device
