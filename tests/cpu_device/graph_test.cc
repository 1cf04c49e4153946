// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

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

TEST_F(GraphTest, AForkedStreamMayGoAndItsWorkMustBeJoined) {
  for (bool joined : {true, false}) {
    CUstream side = nullptr;
    CUevent fork = nullptr, join = nullptr;
    ASSERT_OK(CU(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(CU(cuEventRecord)(fork, stream_));
    ASSERT_OK(CU(cuStreamWaitEvent)(side, fork, 0));
    ASSERT_OK(CU(cuMemsetD32Async)(data_, 7, 1, side));
    ASSERT_OK(CU(cuEventRecord)(join, side));
    if (joined) ASSERT_OK(CU(cuStreamWaitEvent)(stream_, join, 0));
    ASSERT_OK(CU(cuStreamDestroy_v2)(side));
    CUgraph graph = nullptr;
    CUresult ended = CU(cuStreamEndCapture)(stream_, &graph);
    EXPECT_EQ(ended, joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(graph != nullptr, joined);
    ASSERT_OK(CU(cuStreamSynchronize)(stream_));  // it captures no more
  }
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

TEST_F(GraphTest, AnUpdateSaysWhichNodeDiffers) {
  CUgraph graph = nullptr, other = nullptr;
  CUgraphNode first = nullptr, second = nullptr, changed = nullptr;
  CUDA_MEMSET_NODE_PARAMS set{data_, 0, 1, 4, 1, 1};
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  ASSERT_OK(CU(cuGraphCreate)(&other, 0));
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&first, graph, nullptr, 0, &set, context_));
  ASSERT_OK(CU(cuGraphAddEmptyNode)(&second, graph, &first, 1));
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  set.value = 6;
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&first, other, nullptr, 0, &set, context_));
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, nullptr);
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&changed, other, &first, 1, &set, context_));
  EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(info.errorNode, changed);
  ASSERT_OK(CU(cuGraphDestroyNode)(changed));
  ASSERT_OK(CU(cuGraphAddEmptyNode)(&second, other, &first, 1));
  EXPECT_OK(CU(cuGraphExecUpdate_v2)(exec, other, &info));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(0), 6);
}

TEST_F(GraphTest, MemoryOfANodeStaysWhereItIsUntilAllHaveLetItGo) {
  CUgraph graph = nullptr;
  CUgraphNode alloc = nullptr, set_node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS memory{};
  memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.bytesize = 4096;
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  ASSERT_OK(CU(cuGraphAddMemAllocNode)(&alloc, graph, nullptr, 0, &memory));
  CUDA_MEMSET_NODE_PARAMS set{memory.dptr, 0, 8, 4, 1, 1};
  ASSERT_OK(CU(cuGraphAddMemsetNode)(&set_node, graph, &alloc, 1, &set, context_));
  CUgraphExec exec = nullptr, second = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemFree_v2)(memory.dptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  EXPECT_EQ(CU(cuGraphLaunch)(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  ASSERT_OK(CU(cuGraphExecDestroy)(exec));
  ASSERT_OK(CU(cuGraphDestroy)(graph));
  EXPECT_EQ(*reinterpret_cast<volatile int*>(memory.dptr), 8);
  cuuint64_t used = 0;
  EXPECT_OK(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 4096u);
  EXPECT_OK(CU(cuMemFree_v2)(memory.dptr));
  EXPECT_EQ(CU(cuMemFree_v2)(memory.dptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0u);
}

TEST_F(GraphTest, ValuesAreWrittenAndWaitedForByANode) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUstreamBatchMemOpParams ops[2] = {};
  ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  ops[0].writeValue.address = data_ + 8;
  ops[0].writeValue.value64 = 5;
  ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[1].waitValue.address = data_ + 8;
  ops[1].waitValue.value = 5;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{context_, 2, ops, 0};
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  ASSERT_OK(CU(cuGraphAddBatchMemOpNode)(&node, graph, nullptr, 0, &params));
  ops[0].writeValue.address = data_ + 4;  // not aligned
  EXPECT_EQ(CU(cuGraphBatchMemOpNodeSetParams)(node, &params), CUDA_ERROR_INVALID_VALUE);
  CUDA_BATCH_MEM_OP_NODE_PARAMS got{};
  ASSERT_OK(CU(cuGraphBatchMemOpNodeGetParams)(node, &got));
  EXPECT_EQ(got.count, 2u);
  EXPECT_EQ(got.paramArray[0].writeValue.address, data_ + 8);
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  EXPECT_EQ(Word(2), 5);
}

std::atomic<int> g_destroyed{0};

TEST_F(GraphTest, ALaunchKeepsWhatItsGraphKept) {
  static std::atomic<bool> open;
  open = false;
  g_destroyed = 0;
  CUuserObject object = nullptr;
  ASSERT_OK(CU(cuUserObjectCreate)(
      &object, nullptr, [](void*) { ++g_destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_HOST_NODE_PARAMS host{[](void*) {
                               while (!open) std::this_thread::yield();
                             },
                             nullptr};
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  ASSERT_OK(CU(cuGraphAddHostNode)(&node, graph, nullptr, 0, &host));
  ASSERT_OK(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphDestroy)(graph));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream_));
  ASSERT_OK(CU(cuGraphExecDestroy)(exec));
  EXPECT_EQ(g_destroyed, 0);
  open = true;
  ASSERT_OK(CU(cuStreamSynchronize)(stream_));
  while (g_destroyed != 1) std::this_thread::yield();
  EXPECT_EQ(CU(cuUserObjectRelease)(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, AGraphInsideANodeGoesWithIt) {
  CUgraph graph = nullptr, child = nullptr, inside = nullptr;
  CUgraphNode node = nullptr, empty = nullptr;
  ASSERT_OK(CU(cuGraphCreate)(&graph, 0));
  ASSERT_OK(CU(cuGraphCreate)(&child, 0));
  ASSERT_OK(CU(cuGraphAddEmptyNode)(&empty, child, nullptr, 0));
  ASSERT_OK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, child));
  ASSERT_OK(CU(cuGraphDestroy)(child));
  ASSERT_OK(CU(cuGraphChildGraphNodeGetGraph)(node, &inside));
  size_t count = 0;
  EXPECT_OK(CU(cuGraphGetNodes)(inside, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(CU(cuGraphDestroy)(inside), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(CU(cuGraphDestroy)(graph));
  EXPECT_EQ(CU(cuGraphGetNodes)(inside, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace farcall::cpu_device
