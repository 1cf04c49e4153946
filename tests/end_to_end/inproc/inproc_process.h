// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: one server and one client session for the life of the
// process, and the kernel they launch.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>

#include "tests/end_to_end/inproc/test_server.h"

namespace farcall::inproc_test {

#define ASSERT_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

inline constexpr int kThreads = 4;

class Process : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;

  // Set before SetUp: the server is a child process, which can have memory where the client has.
  static bool is_apart;
  static std::unique_ptr<TestServer> server;
  static CUcontext context;
  static CUmodule module;
  static CUfunction add;
};

// PTX of `add`: adds a value to each of a number of words.
extern const char* const kPtx;
CUresult LaunchAdd(CUfunction add, CUdeviceptr at, uint32_t count, uint32_t value, CUstream stream);

// Breaks the link each `often`-th time it is asked, from whichever thread.
class Cutter {
 public:
  explicit Cutter(int often) : often_(often) {}
  void MayCut() {
    if (asked_.fetch_add(1) % often_ == 0) Process::server->Cut();
  }

 private:
  const int often_;
  std::atomic<int> asked_{0};
};

// Runs `body` with 0 ... kThreads - 1, each in a thread with the context current.
void RunThreads(const std::function<void(int)>& body);

}  // namespace farcall::inproc_test
