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

// Kernels that would never come back, or go where there is nothing. In a process of its own: the
// time is read once.
class WildKernelTest : public DriverTest {
 protected:
  void SetUp() override {
    if (dlopen(FARCALL_LIBCUDA, RTLD_NOW | RTLD_NOLOAD) != nullptr)
      GTEST_SKIP() << "the device is open already";
    setenv("FARCALL_CPU_TIMEOUT_MS", "400", 1);
    DriverTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) DriverTest::TearDown();
  }

  // Runs it in a context of its own; the context stays broken, the other one whole.
  void ExpectSticky(const char* kernel, CUresult expected) {
    CUcontext wild = nullptr;
    ASSERT_OK(CU(cuCtxCreate_v2)(&wild, 0, 0));
    CUmodule module = nullptr;
    const CUresult loaded = CU(cuModuleLoadData)(&module, Wild());
    if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
    ASSERT_OK(loaded);
    CUfunction function = nullptr;
    ASSERT_OK(CU(cuModuleGetFunction)(&function, module, kernel));
    CUdeviceptr out = Allocate(64);
    void* params[] = {&out};
    ASSERT_OK(CU(cuLaunchKernel)(function, 2, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_EQ(CU(cuCtxSynchronize)(), expected) << kernel;
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&address, 64), expected) << kernel;
    EXPECT_EQ(CU(cuStreamQuery)(nullptr), expected) << kernel;
    ASSERT_OK(CU(cuCtxSetCurrent)(context_));
    EXPECT_OK(CU(cuMemAlloc_v2)(&address, 64));
    EXPECT_OK(CU(cuMemsetD32_v2)(address, 7, 16));
    EXPECT_OK(CU(cuCtxSynchronize)());
    EXPECT_OK(CU(cuCtxDestroy_v2)(wild));
  }

  static const char* Wild() {
    return R"(.version 7.0
.target sm_75
.address_size 64
.func (.param .b32 r) deeper(.param .b32 n) {
  .local .align 4 .b8 area[64]; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u32 %r1, [n]; st.local.u32 [area], %r1;
  { .param .b32 a; .param .b32 b; add.u32 %r2, %r1, 1; st.param.b32 [a], %r2;
    call (b), deeper, (a); ld.param.b32 %r3, [b]; }
  ld.local.u32 %r2, [area]; add.u32 %r3, %r3, %r2; st.param.b32 [r], %r3; ret;
}
.visible .entry recursion(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
  { .param .b32 a; .param .b32 b; mov.u32 %r1, 1; st.param.b32 [a], %r1;
    call (b), deeper, (a); ld.param.b32 %r2, [b]; }
  st.global.u32 [%rd1], %r2; ret;
}
.visible .entry loop(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
AGAIN: add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; bra AGAIN;
}
.visible .entry barriers(.param .u64 out) {
AGAIN: bar.sync 0; bra AGAIN;
}
.visible .entry switches(.param .u64 out) {
  .reg .b32 %r<2>; mov.u32 %r1, 0;
AGAIN: ts: .branchtargets AGAIN, AGAIN; brx.idx %r1, ts;
}
.visible .entry spin(.param .u64 out) {
  .reg .b32 %r<2>; .reg .pred %p<2>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
AGAIN: ld.volatile.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 123456; @%p1 bra AGAIN; ret;
}
.visible .entry jump(.param .u64 out) {
  .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
  proto: .callprototype _ ();
  call %rd1, proto; ret;
}
.visible .entry past_the_table(.param .u64 out) {
  .reg .b32 %r<2>; mov.u32 %r1, %ntid.x;
  ts: .branchtargets A, B; brx.idx %r1, ts;
A: ret; B: ret;
}
.visible .entry outside(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>; mov.u64 %rd1, 0x7f0000001000; mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1; ret;
}
)";
  }
};

TEST_F(WildKernelTest, EndsWithAnErrorThatStaysInItsContext) {
  for (const char* endless : {"loop", "barriers", "spin", "switches"})
    ExpectSticky(endless, CUDA_ERROR_LAUNCH_TIMEOUT);
  ExpectSticky("recursion", CUDA_ERROR_LAUNCH_FAILED);
  ExpectSticky("past_the_table", CUDA_ERROR_LAUNCH_FAILED);
  ExpectSticky("jump", CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectSticky("outside", CUDA_ERROR_ILLEGAL_ADDRESS);
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
