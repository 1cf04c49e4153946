// SPDX-License-Identifier: Apache-2.0
// Events another process shares: here both sides are in one.
#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

class IpcEventTest : public DriverTest {
 protected:
  CUevent Make() {
    CUevent event = nullptr;
    EXPECT_OK(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    return event;
  }
};

TEST_F(IpcEventTest, IsReachedOnBothSides) {
  CUevent event = Make(), opened = nullptr;
  CUipcEventHandle handle;
  ASSERT_OK(CU(cuIpcGetEventHandle)(&handle, event));
  ASSERT_OK(CU(cuIpcOpenEventHandle)(&opened, handle));
  EXPECT_OK(CU(cuEventQuery)(opened)) << "never recorded";
  CUstream stream = nullptr, waiter = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(CU(cuStreamCreate)(&waiter, CU_STREAM_NON_BLOCKING));
  CUdeviceptr gate = 0;
  ASSERT_OK(CU(cuMemAlloc_v2)(&gate, 4));
  ASSERT_OK(CU(cuMemsetD32_v2)(gate, 0, 1));
  ASSERT_OK(CU(cuStreamWaitValue32_v2)(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(CU(cuEventRecord)(event, stream));
  EXPECT_EQ(CU(cuEventQuery)(opened), CUDA_ERROR_NOT_READY);
  ASSERT_OK(CU(cuStreamWaitEvent)(waiter, opened, 0));
  EXPECT_EQ(CU(cuStreamQuery)(waiter), CUDA_ERROR_NOT_READY);
  uint32_t one = 1;
  ASSERT_OK(CU(cuMemcpyHtoDAsync_v2)(gate, &one, 4, CU_STREAM_PER_THREAD));
  EXPECT_OK(CU(cuStreamSynchronize)(waiter));
  EXPECT_OK(CU(cuEventSynchronize)(opened));
  EXPECT_OK(CU(cuEventQuery)(opened));
  EXPECT_OK(CU(cuEventDestroy_v2)(opened));
  EXPECT_OK(CU(cuEventDestroy_v2)(event));
  EXPECT_OK(CU(cuMemFree_v2)(gate));
}

TEST_F(IpcEventTest, RefusesWhatIsNoneOfItsHandles) {
  CUevent plain = nullptr, opened = nullptr;
  CUipcEventHandle handle{};
  EXPECT_EQ(CU(cuEventCreate)(&plain, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(CU(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(CU(cuIpcGetEventHandle)(&handle, plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuIpcOpenEventHandle)(&opened, handle), CUDA_ERROR_INVALID_VALUE);
  CUevent event = Make();
  ASSERT_OK(CU(cuIpcGetEventHandle)(&handle, event));
  handle.reserved[8] ^= 1;
  EXPECT_EQ(CU(cuIpcOpenEventHandle)(&opened, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuEventDestroy_v2)(event));
  EXPECT_OK(CU(cuEventDestroy_v2)(plain));
}

}  // namespace
}  // namespace farcall::cpu_device
