// SPDX-License-Identifier: Apache-2.0
// Kernels and memsets of several streams: they begin as they were issued, and those that wait for
// each other run side by side.
#include "cpu-device/driver/state/issue_order.h"

#include <future>
#include <vector>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

using std::chrono::milliseconds;

// Ends, or not, within a time that is long for what takes none.
bool Ends(const std::future<void>& work, milliseconds within = milliseconds(20000)) {
  return work.wait_for(within) == std::future_status::ready;
}

class IssueOrderTest : public ::testing::Test {
 protected:
  std::future<void> Begin(uint64_t number) {
    return std::async(std::launch::async, [this, number] { order_.Begin(number); });
  }
  IssueOrder order_;
};

TEST_F(IssueOrderTest, OneAtATimeAsIssued) {
  const uint64_t first = order_.Issue(0, true), second = order_.Issue(0, true);
  std::future<void> later = Begin(second);
  EXPECT_FALSE(Ends(later, milliseconds(50)));  // the first will come
  order_.Begin(first);
  EXPECT_FALSE(Ends(later, milliseconds(50)));
  order_.End(first);
  EXPECT_TRUE(Ends(later));
  order_.End(second);
}

TEST_F(IssueOrderTest, WhatFollowsInAStreamComesToo) {
  const uint64_t first = order_.Issue(0, true), next = order_.Issue(first, true);
  const uint64_t other = order_.Issue(0, true);
  order_.Begin(first);
  order_.End(first);
  std::future<void> later = Begin(other);
  EXPECT_FALSE(Ends(later, milliseconds(50)));
  order_.Begin(next);
  order_.End(next);
  EXPECT_TRUE(Ends(later));
  order_.End(other);
}

TEST_F(IssueOrderTest, WhatItsStreamHoldsUpHoldsUpNoOther) {
  const uint64_t held = order_.Issue(0, false), behind = order_.Issue(held, true);
  const uint64_t other = order_.Issue(0, true);
  order_.Begin(other);
  order_.End(other);
  order_.Begin(held);
  order_.End(held);
  order_.Begin(behind);
  order_.End(behind);
}

TEST_F(IssueOrderTest, WhatWaitsForOthersLetsThemBegin) {
  const uint64_t first = order_.Issue(0, true), behind = order_.Issue(first, true);
  const uint64_t other = order_.Issue(0, true);
  order_.Begin(first);
  std::future<void> later = Begin(other);
  EXPECT_FALSE(Ends(later, milliseconds(50)));
  order_.Yield(first);
  EXPECT_TRUE(Ends(later));
  order_.End(other);
  order_.End(first);
  order_.Begin(behind);
  order_.End(behind);
}

// It may wait in a way that does not show.
TEST_F(IssueOrderTest, WhatTakesLongLetsOthersBegin) {
  const uint64_t first = order_.Issue(0, true), other = order_.Issue(0, true);
  order_.Begin(first);
  order_.Begin(other);
  order_.End(other);
  order_.End(first);
}

constexpr char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64
// Each block: *count += 1 after some turns of a loop.
.visible .entry Count(.param .u64 count)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %rd;
  ld.param.u64 %rd, [count];
  mov.u32 %r1, 0;
TURN:
  add.u32 %r1, %r1, 1;
  atom.global.or.b32 %r2, [%rd], 0;
  setp.lt.u32 %p, %r1, 500;
  @%p bra TURN;
  atom.global.add.u32 %r2, [%rd], 1;
  ret;
}
.visible .entry Keep(.param .u64 count, .param .u64 out)
{
  .reg .b32 %r;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [count];
  ld.param.u64 %rd2, [out];
  ld.global.u32 %r, [%rd1];
  st.global.u32 [%rd2], %r;
  ret;
}
// Waits for *flag to be one, then makes it two.
.visible .entry Wait(.param .u64 flag)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
LOOK:
  ld.volatile.global.u32 %r1, [%rd];
  setp.ne.u32 %p, %r1, 1;
  @%p bra LOOK;
  st.volatile.global.u32 [%rd], 2;
  ret;
}
.visible .entry Set(.param .u64 flag)
{
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  st.volatile.global.u32 [%rd], 1;
  ret;
}
)";

class StreamsTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    const CUresult loaded = CU(cuModuleLoadData)(&module_, kKernels);
    if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "built without an executor";
    ASSERT_EQ(loaded, CUDA_SUCCESS);
    for (CUstream& stream : streams_)
      ASSERT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    word_ = Allocate(4);
    ASSERT_OK(CU(cuMemsetD32_v2)(word_, 0, 1));
    ASSERT_OK(CU(cuCtxSynchronize)());
  }
  void Launch(const char* kernel, unsigned blocks, CUstream stream, CUdeviceptr out = 0) {
    CUfunction function = nullptr;
    ASSERT_OK(CU(cuModuleGetFunction)(&function, module_, kernel));
    void* params[] = {&word_, &out};
    ASSERT_OK(CU(cuLaunchKernel)(function, blocks, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  }
  int Word() const { return *reinterpret_cast<volatile int*>(word_); }

  CUmodule module_ = nullptr;
  CUstream streams_[4] = {};
  CUdeviceptr word_ = 0;
};

// As cuBLAS does: each call of any stream clears the one counter and counts to its end with it.
TEST_F(StreamsTest, KernelsAndMemsetsBeginAsTheyWereIssued) {
  constexpr int kBlocks = 200, kCalls = 40;
  const CUdeviceptr counts = Allocate(kCalls * 4);
  for (int call = 0; call < kCalls; ++call) {
    const CUstream stream = streams_[call % 4];
    ASSERT_OK(CU(cuMemsetD32Async)(word_, 0, 1, stream));
    Launch("Count", kBlocks, stream);
    Launch("Count", kBlocks, stream);
    Launch("Keep", 1, stream, counts + call * 4);
  }
  ASSERT_OK(CU(cuCtxSynchronize)());
  for (int call = 0; call < kCalls; ++call)
    EXPECT_EQ(reinterpret_cast<volatile int*>(counts)[call], 2 * kBlocks) << call;
}

TEST_F(StreamsTest, AKernelWaitsForALaterOneOfAnotherStream) {
  Launch("Wait", 1, streams_[0]);
  Launch("Set", 1, streams_[1]);
  ASSERT_OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(Word(), 2);
}

}  // namespace
}  // namespace farcall::cpu_device
