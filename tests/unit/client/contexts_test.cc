// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/contexts.h"

#include <gtest/gtest.h>

#include "client-shim/core/session/devices.h"

namespace farcall::client {
namespace {

TEST(LateError, IsReportedOnceThenForgotten) {
  Context context;
  EXPECT_EQ(TakeLateError(&context), CUDA_SUCCESS);
  RecordLateError(&context, CUDA_ERROR_INVALID_VALUE);
  RecordLateError(&context, CUDA_ERROR_INVALID_HANDLE);  // the first is the one to know
  EXPECT_EQ(TakeLateError(&context), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TakeLateError(&context), CUDA_SUCCESS);
}

TEST(LateError, AStickyOneStaysAndReplacesAPlainOne) {
  Context context;
  RecordLateError(&context, CUDA_ERROR_INVALID_VALUE);
  RecordLateError(&context, CUDA_ERROR_ILLEGAL_ADDRESS);
  RecordLateError(&context, CUDA_ERROR_LAUNCH_FAILED);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TakeLateError(&context), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(Context, IsFoundByHandleAndSlotUntilRetired) {
  Device device;
  device.server_index = 1;
  Context* context = NewContext(0, device, false, 0);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->server_device, 1);
  EXPECT_EQ(FindContext(AsCuda(context)), context);
  EXPECT_EQ(ContextBySlot(context->slot), context);
  CUcontext handle = AsCuda(context);
  RetireContext(context);
  EXPECT_EQ(FindContext(handle), nullptr);
}

}  // namespace
}  // namespace farcall::client
