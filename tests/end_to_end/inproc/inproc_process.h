// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: one server and one client session for the life of the
// process, and the kernel they launch.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tests/end_to_end/inproc/inproc_server.h"

namespace farcall::inproc_test {

#define ASSERT_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

inline constexpr int kThreads = 4;

class Process : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;

  static std::unique_ptr<InprocServer> server;
  static CUcontext context;
  static CUmodule module;
  static CUfunction add;
};

// PTX of `add`: adds a value to each of a number of words.
extern const char* const kPtx;
CUresult LaunchAdd(CUfunction add, CUdeviceptr at, uint32_t count, uint32_t value, CUstream stream);

// Runs `body` with 0 ... kThreads - 1, each in a thread with the context current.
void RunThreads(const std::function<void(int)>& body);

}  // namespace farcall::inproc_test
