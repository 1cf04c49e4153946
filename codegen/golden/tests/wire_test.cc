// SPDX-License-Identifier: Apache-2.0
// Generated from cuda.h and codegen/spec/cuda/: each call's arguments arrive equal, its outputs return equal.
#include "generated/client/calls.h"
#include "generated/server/handwritten.h"
#include "tests/wire/wire_fixture.h"

namespace farcall::wire_test {

TEST_F(Wire, cuCtxGetLimit) {
  size_t pvalue{};
  api.cuCtxGetLimit = [](size_t* pvalue, CUlimit limit) -> CUresult {
    ++native_calls;
    if (answer != CUDA_SUCCESS) { return answer; }
    (*pvalue) = static_cast<size_t>(49);
    EXPECT_EQ(limit, static_cast<CUlimit>(1));
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuCtxGetLimit, &server::Serve_cuCtxGetLimit);
  const auto run = [&] {
    return client::RoundTrip_cuCtxGetLimit(&pvalue, static_cast<CUlimit>(1));
  };
  EXPECT_EQ(run(), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
  EXPECT_EQ(pvalue, static_cast<size_t>(49));
  answer = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(run(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(native_calls, 2);
}

TEST_F(Wire, cuCtxGetStreamPriorityRange) {
  int leastPriority{};
  int greatestPriority{};
  api.cuCtxGetStreamPriorityRange = [](int* leastPriority, int* greatestPriority) -> CUresult {
    ++native_calls;
    if (answer != CUDA_SUCCESS) { return answer; }
    (*leastPriority) = static_cast<int>(49);
    (*greatestPriority) = static_cast<int>(89);
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuCtxGetStreamPriorityRange, &server::Serve_cuCtxGetStreamPriorityRange);
  const auto run = [&] {
    return client::RoundTrip_cuCtxGetStreamPriorityRange(&leastPriority, &greatestPriority);
  };
  EXPECT_EQ(run(), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
  EXPECT_EQ(leastPriority, static_cast<int>(49));
  EXPECT_EQ(greatestPriority, static_cast<int>(89));
  answer = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(run(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(native_calls, 2);
}

TEST_F(Wire, cuProfilerStart) {
  api.cuProfilerStart = []() -> CUresult {
    ++native_calls;
    if (answer != CUDA_SUCCESS) { return answer; }
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuProfilerStart, &server::Serve_cuProfilerStart);
  const auto run = [&] {
    return client::Post_cuProfilerStart();
  };
  EXPECT_EQ(run(), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
  answer = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(run(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(native_calls, 2);
}

TEST_F(Wire, cuMemcpyDtoDAsync_v2) {
  api.cuMemcpyDtoDAsync_v2 = [](CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) -> CUresult {
    ++native_calls;
    if (answer != CUDA_SUCCESS) { return answer; }
    EXPECT_EQ(dstDevice, 0x200000010000u);
    EXPECT_EQ(srcDevice, 0x200000020000u);
    EXPECT_EQ(ByteCount, static_cast<size_t>(97));
    EXPECT_EQ(hStream, Native(LiveHandle<CUstream>(HandleKind::kStream, 4)));
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuMemcpyDtoDAsync_v2, &server::Serve_cuMemcpyDtoDAsync_v2);
  const auto run = [&] {
    return client::Post_cuMemcpyDtoDAsync_v2(0x200000010000u, 0x200000020000u, static_cast<size_t>(97), LiveHandle<CUstream>(HandleKind::kStream, 4));
  };
  EXPECT_EQ(run(), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
  answer = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(run(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(native_calls, 2);
  rejected = true;
  run();
  EXPECT_FALSE(last_was_ok);
  EXPECT_EQ(native_calls, 2);
}

}  // namespace farcall::wire_test
