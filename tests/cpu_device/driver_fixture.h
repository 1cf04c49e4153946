// SPDX-License-Identifier: Apache-2.0
// The device's libcuda.so.1 by dlopen, one primary context per test.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace farcall::cpu_device {

inline void* Library() {
  static void* library = [] {
    // Before the library reads them: a small device, two of them, no noise from calls that are
    // meant to fail.
    setenv("FARCALL_CPU_MEM", "256MiB", 1);
    setenv("FARCALL_CPU_DEVICES", "2", 1);
    setenv("FARCALL_LOG", "off", 0);
    return dlopen(FARCALL_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

template <typename F>
F* Symbol(const char* name) {
  F* function = reinterpret_cast<F*>(dlsym(Library(), name));
  EXPECT_NE(function, nullptr) << name;
  return function;
}

// A call into the library under test: CU(cuMemAlloc_v2)(&address, 64).
#define CU(name) (::farcall::cpu_device::Symbol<decltype(name)>(#name))
#define ASSERT_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Library(), nullptr) << dlerror();
    ASSERT_OK(CU(cuInit)(0));
    ASSERT_OK(CU(cuDevicePrimaryCtxRetain)(&context_, 0));
    ASSERT_OK(CU(cuCtxSetCurrent)(context_));
  }
  void TearDown() override {
    EXPECT_OK(CU(cuDevicePrimaryCtxReset_v2)(0));
    CU(cuDevicePrimaryCtxRelease_v2)(0);
    CU(cuCtxSetCurrent)(nullptr);
  }

  size_t FreeBytes() {
    size_t free_bytes = 0, total = 0;
    EXPECT_OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    return free_bytes;
  }

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_OK(CU(cuMemAlloc_v2)(&address, bytes));
    return address;
  }

  CUcontext context_ = nullptr;
};

// scale(int* data, int factor, int count); poke(int* address): writes 1; bounded: at most 64
// threads; a global `table` of 4 ints.

inline const char* Ptx() {
  return R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry scale(.param .u64 data, .param .u32 factor, .param .u32 count) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [factor]; ld.param.u32 %r2, [count];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r6, %r2;
  @%p1 bra DONE;
  mul.wide.s32 %rd2, %r6, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3]; mul.lo.s32 %r7, %r7, %r1; st.global.u32 [%rd3], %r7;
DONE:
  ret;
}
.visible .entry poke(.param .u64 address) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [address]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
)";
}

}  // namespace farcall::cpu_device
