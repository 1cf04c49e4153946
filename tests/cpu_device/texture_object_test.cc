// SPDX-License-Identifier: Apache-2.0
// Texture objects through the driver's interface; how they are read: texture_test.cc.
#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr const char* kFetch = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 out) {
  .reg .b32 %r<2>; .reg .f32 %f<5>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, 1;
  tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
  st.global.f32 [%rd2], %f1;
  ret;
}
)";

// A program launches and destroys, and waits only then.
TEST_F(DriverTest, ATextureObjectOutlivesTheLaunchesBeforeItsEnd) {
  CUmodule module = nullptr;
  CUfunction fetch = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&module, kFetch));
  ASSERT_OK(CU(cuModuleGetFunction)(&fetch, module, "fetch"));
  const float texels[4] = {1, 2, 3, 4};
  CUdeviceptr data = Allocate(sizeof(texels)), out = Allocate(4), gate = Allocate(4);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, texels, sizeof(texels)));
  ASSERT_OK(CU(cuMemsetD32_v2)(gate, 0, 1));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = data;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = sizeof(texels);
  CUDA_TEXTURE_DESC description{};
  CUtexObject texture = 0;
  ASSERT_OK(CU(cuTexObjectCreate)(&texture, &resource, &description, nullptr));
  CUstream stream = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(CU(cuStreamWaitValue32_v2)(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
  void* params[] = {&texture, &out};
  ASSERT_OK(CU(cuLaunchKernel)(fetch, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  EXPECT_OK(CU(cuTexObjectDestroy)(texture));
  EXPECT_EQ(CU(cuTexObjectDestroy)(texture), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuTexObjectGetResourceDesc)(&resource, texture), CUDA_ERROR_INVALID_VALUE);
  uint32_t one = 1;
  ASSERT_OK(CU(cuMemcpyHtoDAsync_v2)(gate, &one, 4, CU_STREAM_PER_THREAD));
  EXPECT_OK(CU(cuStreamSynchronize)(stream));
  float got = 0;
  EXPECT_OK(CU(cuMemcpyDtoH_v2)(&got, out, 4));
  EXPECT_EQ(got, 2);
  ASSERT_OK(CU(cuLaunchKernel)(fetch, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS) << "then it is gone";
}

TEST_F(DriverTest, NoSurfaceIsDestroyedWithoutAnError) {
  EXPECT_OK(CU(cuSurfObjectDestroy)(0));
  EXPECT_EQ(CU(cuSurfObjectDestroy)(4711), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, ALinearTextureEndsWithItsMemory) {
  CUmodule module = nullptr;
  CUfunction fetch = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&module, kFetch));
  ASSERT_OK(CU(cuModuleGetFunction)(&fetch, module, "fetch"));
  CUdeviceptr data = Allocate(4), out = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0x40400000, 1));
  ASSERT_OK(CU(cuMemsetD32_v2)(out, 0x40400000, 1));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = data;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 1 << 20;
  CUDA_TEXTURE_DESC description{};
  CUtexObject texture = 0;
  ASSERT_OK(CU(cuTexObjectCreate)(&texture, &resource, &description, nullptr));
  void* params[] = {&texture, &out};
  ASSERT_OK(CU(cuLaunchKernel)(fetch, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  float got = 7;
  EXPECT_OK(CU(cuMemcpyDtoH_v2)(&got, out, 4));
  EXPECT_EQ(got, 0) << "the texel behind the last";
  resource.res.linear.devPtr = 4096;
  EXPECT_EQ(CU(cuTexObjectCreate)(&texture, &resource, &description, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace farcall::cpu_device
