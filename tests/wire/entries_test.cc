// SPDX-License-Identifier: Apache-2.0
// The C entries, by their golden copies: check first, then the right body with the right default
// stream.
#include <cuda.h>
#include <gtest/gtest.h>

#include <vector>

#include "client-shim/core/session/session_face.h"
#include "client-shim/core/session/thread_state.h"
#include "generated/client/calls.h"

namespace farcall::client {
namespace {

struct Entered {
  CallId call;
  Needs needs;
};
std::vector<Entered> entered;
std::vector<CallId> unsupported;
CUresult refusal = CUDA_SUCCESS;
CUstream stream_seen = nullptr;
int bodies = 0;

CUresult Body(CUstream stream) {
  ++bodies;
  stream_seen = stream;
  return CUDA_ERROR_ASSERT;  // a body's answer goes through
}

class Entries : public ::testing::Test {
 public:
  Entries() {
    entered.clear();
    unsupported.clear();
    refusal = CUDA_SUCCESS;
    stream_seen = nullptr;
    bodies = 0;
  }
};

TEST_F(Entries, CheckBeforeTheBodyRuns) {
  refusal = CUDA_ERROR_NOT_INITIALIZED;
  size_t value = 0;
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(bodies, 0);
  ASSERT_EQ(entered.size(), 1u);
  EXPECT_EQ(entered[0].call, CallId::cuCtxGetLimit);
  EXPECT_EQ(entered[0].needs, Needs::kContext);
}

TEST_F(Entries, ReturnWhatTheBodyReturns) {
  size_t value = 0;
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_ERROR_ASSERT);
  EXPECT_EQ(bodies, 1);
}

TEST_F(Entries, LowerASynchronousCopyToItsDefaultStream) {
  EXPECT_EQ(cuMemcpyPeer(0x200000000000, nullptr, 0x200000001000, nullptr, 2), CUDA_ERROR_ASSERT);
  EXPECT_EQ(stream_seen, nullptr);
  EXPECT_EQ(cuMemcpyPeer_ptds(0x200000000000, nullptr, 0x200000001000, nullptr, 2),
            CUDA_ERROR_ASSERT);
  EXPECT_EQ(stream_seen, CU_STREAM_PER_THREAD);
  EXPECT_EQ(entered[1].call, CallId::cuMemcpyPeer_ptds);
}

TEST_F(Entries, TellAHandWrittenBodyTheDefaultStream) {
  EXPECT_EQ(cuMemcpyHtoD_v2_ptds(0x200000000000, nullptr, 0), CUDA_ERROR_ASSERT);
  EXPECT_EQ(stream_seen, CU_STREAM_PER_THREAD);
}

TEST_F(Entries, TurnOnlyTheNullStreamIntoThePerThreadOne) {
  cuLaunchKernel_ptsz(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  EXPECT_EQ(stream_seen, CU_STREAM_PER_THREAD);
  CUstream own = reinterpret_cast<CUstream>(MakeHandle(HandleKind::kStream, 3, 1));
  cuLaunchKernel_ptsz(nullptr, 1, 1, 1, 1, 1, 1, 0, own, nullptr, nullptr);
  EXPECT_EQ(stream_seen, own);
  cuLaunchKernel_ptsz(nullptr, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, nullptr, nullptr);
  EXPECT_EQ(stream_seen, CU_STREAM_LEGACY);
}

TEST_F(Entries, ServeAnOldNameAsTheNewOne) {
  CUstream own = reinterpret_cast<CUstream>(MakeHandle(HandleKind::kStream, 3, 1));
  EXPECT_EQ(cuStreamDestroy(own), CUDA_ERROR_ASSERT);
  EXPECT_EQ(stream_seen, own);
}

TEST_F(Entries, AnswerAnUnsupportedCallHonestly) {
  EXPECT_EQ(cuWaitExternalSemaphoresAsync(nullptr, nullptr, 0, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(unsupported.size(), 1u);
  EXPECT_EQ(unsupported[0], CallId::cuWaitExternalSemaphoresAsync);
  EXPECT_TRUE(entered.empty());
}

}  // namespace

// Never clear: each entry asks EnterWithCare.
std::atomic<bool> g_all_clear{false};
constinit thread_local ThreadState* t_thread = nullptr;

CUresult EnterWithCare(CallId call, Needs needs) {
  entered.push_back({call, needs});
  return refusal;
}

CUresult CheckUnsafeInCapture() {
  return CUDA_SUCCESS;
}

CUresult NotSupported(CallId call) {
  unsupported.push_back(call);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult RoundTrip_cuCtxGetLimit(size_t*, CUlimit) {
  return Body(nullptr);
}
CUresult Call_cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
                                CUstream stream) {
  return Body(stream);
}
CUresult Call_cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t, CUstream default_stream) {
  return Body(default_stream);
}
CUresult Call_cuStreamDestroy_v2(CUstream stream) {
  return Body(stream);
}
CUresult Call_cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream stream, void**, void**) {
  return Body(stream);
}

}  // namespace farcall::client
