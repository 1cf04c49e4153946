// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

class GraphTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(CU(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING));
    data_ = Allocate(64);
    ASSERT_OK(CU(cuMemsetD32_v2)(data_, 0, 16));
    ASSERT_OK(CU(cuCtxSynchronize)());
  }
  int Word(size_t index) { return reinterpret_cast<volatile int*>(data_)[index]; }

  CUstream stream_ = nullptr;
  CUdeviceptr data_ = 0;
};

std::atomic<int> g_calls{0};

TEST_F(GraphTest, ACaptureRunsNothingAndAReplayRunsAll) {
  ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(CU(cuMemsetD32Async)(data_, 5, 1, stream_));
  ASSERT_OK(CU(cuMemcpyDtoDAsync_v2)(data_ + 4, data_, 4, stream_));
  ASSERT_OK(CU(cuLaunchHostFunc)(
      stream_, [](void*) { ++g_calls; }, nullptr));
  CUstreamCaptureStatus status;
  ASSERT_OK(CU(cuStreamIsCapturing)(stream_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  ASSERT_OK(CU(cuStreamEndCapture)(stream_, &graph));
  EXPECT_EQ(Word(0), 0);
  size_t nodes = 0, edges = 0;
  ASSERT_OK(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
  ASSERT_OK(CU(cuGraphGetEdges_v2)(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 3u);
  EXPECT_EQ(edges, 2u);
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphDestroy)(graph));
  g_calls = 0;
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(g_calls.load(), 2);
  EXPECT_EQ(Word(1), 5);
  EXPECT_OK(CU(cuGraphExecDestroy)(exec));
}

TEST_F(GraphTest, EventsForkAndJoinACapture) {
  CUstream side = nullptr;
  CUevent fork = nullptr, join = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(CU(cuMemsetD32Async)(data_, 1, 1, stream_));
  ASSERT_OK(CU(cuEventRecord)(fork, stream_));
  ASSERT_OK(CU(cuStreamWaitEvent)(side, fork, 0));
  ASSERT_OK(CU(cuMemsetD32Async)(data_ + 4, 2, 1, side));
  CUgraph graph = nullptr;
  ASSERT_OK(CU(cuEventRecord)(join, side));
  EXPECT_EQ(CU(cuEventQuery)(join), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_OK(CU(cuStreamWaitEvent)(stream_, join, 0));
  ASSERT_OK(CU(cuStreamEndCapture)(stream_, &graph));
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(1), 2);
  // The side stream is free again.
  EXPECT_OK(CU(cuStreamSynchronize)(side));
}

TEST_F(GraphTest, WorkThatNobodyJoinsIsAnError) {
  CUstream side = nullptr;
  CUevent fork = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(CU(cuMemsetD32Async)(data_, 1, 1, stream_));
  ASSERT_OK(CU(cuEventRecord)(fork, stream_));
  ASSERT_OK(CU(cuStreamWaitEvent)(side, fork, 0));
  ASSERT_OK(CU(cuMemsetD32Async)(data_, 2, 1, side));
  CUgraph graph = nullptr;
  EXPECT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(GraphTest, AWaitInACaptureEndsIt) {
  ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(CU(cuMemsetD32Async)(data_, 1, 1, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_OK(CU(cuStreamSynchronize)(stream_));
}

TEST_F(GraphTest, NodesRunInTheOrderOfTheirEdgesAndCanChange) {
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr, second = nullptr;
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS set{data_, 0, 1, 4, 1, 1};
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&second, graph, nullptr, 0, &set, context_));
  set.value = 2;
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&first, graph, nullptr, 0, &set, context_));
  ASSERT_OK(CU(cuGraphAddDependencies)(graph, &first, &second, 1));
  EXPECT_EQ(CU(cuGraphAddDependencies)(graph, &second, &first, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(0), 1);
  set.value = 9;
  ASSERT_OK(CU(cuGraphExecMemsetNodeSetParams)(exec, second, &set, context_));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(0), 9);
  ASSERT_OK(CU(cuGraphNodeSetEnabled)(exec, second, 0));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(0), 2);
  EXPECT_OK(CU(cuGraphExecDestroy)(exec));
  EXPECT_OK(CU(cuGraphDestroy)(graph));
  CUgraphNodeType type;
  EXPECT_EQ(CU(cuGraphNodeGetType)(first, &type), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace farcall::cpu_device
