// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/launch/launch_check.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

constexpr DeviceLimits kDevice = {{2147483647, 65535, 65535}, {1024, 1024, 64}, 1024, 65536};
constexpr FunctionLimits kFunction = {768, 49152, 80};

CUresult Check(LaunchShape shape) {
  return CheckLaunch(shape, kDevice, kFunction);
}

TEST(CheckLaunch, AcceptsWhatFits) {
  EXPECT_EQ(Check({{1, 1, 1}, {768, 1, 1}, 49152}), CUDA_SUCCESS);
  EXPECT_EQ(Check({{2147483647, 65535, 65535}, {1, 1, 64}, 0}), CUDA_SUCCESS);
}

TEST(CheckLaunch, TooManyThreadsForTheDeviceAreAnInvalidValue) {
  EXPECT_EQ(Check({{1, 1, 1}, {2048, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {64, 64, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1, 1, 65}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {0xFFFFFFFF, 0xFFFFFFFF, 64}, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST(CheckLaunch, TooManyThreadsForTheRegistersAreOutOfResources) {
  EXPECT_EQ(Check({{1, 1, 1}, {832, 1, 1}, 0}), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

TEST(CheckLaunch, MoreThreadsThanTheFunctionDeclaresAreAnInvalidValue) {
  EXPECT_EQ(Check({{1, 1, 1}, {769, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  constexpr FunctionLimits kOfPtx = {64, 49152, 0};
  EXPECT_EQ(CheckLaunch({{1, 1, 1}, {1024, 1, 1}, 0}, kDevice, kOfPtx), CUDA_ERROR_INVALID_VALUE);
}

TEST(CheckLaunch, ZeroAndOversizedDimensionsAreInvalid) {
  EXPECT_EQ(Check({{0, 1, 1}, {1, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1, 0, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 65536, 1}, {1, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST(CheckLaunch, TooMuchSharedMemoryIsInvalid) {
  EXPECT_EQ(Check({{1, 1, 1}, {32, 1, 1}, 49153}), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace farcall::client
