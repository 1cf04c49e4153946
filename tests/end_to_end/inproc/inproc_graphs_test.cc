// SPDX-License-Identifier: Apache-2.0
// Graphs from several threads while the link is cut: made node by node and by capture, with copies
// of host memory that each replay reads and writes anew, changed between replays, and all launching
// into a stream they share.
#include <algorithm>
#include <vector>

#include "tests/end_to_end/inproc/inproc_process.h"

namespace farcall::inproc_test {
namespace {

constexpr uint32_t kCount = 20'000;
constexpr size_t kBytes = kCount * 4;

CUDA_MEMCPY3D Copy(const uint32_t* from, CUdeviceptr to) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D Copy(CUdeviceptr from, uint32_t* to) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

// Up, add, down: one thread's graph, and the host memory it copies.
class RoundTripGraph {
 public:
  RoundTripGraph() : in_(kCount), out_(kCount) {
    EXPECT_OK(cuMemAlloc_v2(&at_, kBytes));
    EXPECT_OK(cuGraphCreate(&graph_, 0));
    CUDA_MEMCPY3D up = Copy(in_.data(), at_), down = Copy(at_, out_.data());
    CUgraphNode first = nullptr, last = nullptr;
    EXPECT_OK(cuGraphAddMemcpyNode(&first, graph_, nullptr, 0, &up, Process::context));
    CUDA_KERNEL_NODE_PARAMS kernel = Kernel();
    EXPECT_OK(cuGraphAddKernelNode_v2(&add_, graph_, &first, 1, &kernel));
    EXPECT_OK(cuGraphAddMemcpyNode(&last, graph_, &add_, 1, &down, Process::context));
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  ~RoundTripGraph() {
    EXPECT_OK(cuGraphExecDestroy(exec_));
    EXPECT_OK(cuGraphDestroy(graph_));
    EXPECT_OK(cuMemFree_v2(at_));
  }

  void Fill(uint32_t value) { std::fill(in_.begin(), in_.end(), value); }
  CUresult Launch(CUstream stream) { return cuGraphLaunch(exec_, stream); }
  CUresult SetAdded(uint32_t value) {
    added_ = value;
    CUDA_KERNEL_NODE_PARAMS kernel = Kernel();
    return cuGraphExecKernelNodeSetParams_v2(exec_, add_, &kernel);
  }
  bool OutIs(uint32_t value) const {
    return std::count(out_.begin(), out_.end(), value) == ptrdiff_t{kCount};
  }

 private:
  CUDA_KERNEL_NODE_PARAMS Kernel() {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = Process::add;
    kernel.gridDimX = (kCount + 63) / 64;
    kernel.blockDimX = 64;
    kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = arguments_;
    return kernel;
  }

  std::vector<uint32_t> in_, out_;
  CUdeviceptr at_ = 0;
  uint32_t count_ = kCount, added_ = 1;
  void* arguments_[3] = {&at_, &count_, &added_};
  CUgraph graph_ = nullptr;
  CUgraphNode add_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

TEST(InprocGraphs, ReplaysReadAndWriteHostMemoryWhileTheLinkIsCut) {
  CUstream shared = nullptr;
  ASSERT_OK(cuStreamCreate(&shared, CU_STREAM_NON_BLOCKING));
  Cutter cutter(11);
  RunThreads([&](int thread) {
    CUstream own = nullptr;
    ASSERT_OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (int made = 0; made < 2 && !::testing::Test::HasFailure(); ++made) {
      RoundTripGraph graph;
      for (uint32_t replay = 0; replay < 12 && !::testing::Test::HasFailure(); ++replay) {
        CUstream stream = replay % 3 == 0 ? shared : own;
        uint32_t value = 1000 * static_cast<uint32_t>(thread) + replay;
        if (replay % 4 == 1) ASSERT_OK(graph.SetAdded(replay));
        uint32_t added = replay < 1 ? 1 : (replay - 1) / 4 * 4 + 1;
        graph.Fill(value);
        ASSERT_OK(graph.Launch(stream));
        cutter.MayCut();
        ASSERT_OK(cuStreamSynchronize(stream));
        ASSERT_TRUE(graph.OutIs(value + added)) << "replay " << replay << " of thread " << thread;
      }
    }
    ASSERT_OK(cuStreamDestroy_v2(own));
  });
  EXPECT_OK(cuStreamDestroy_v2(shared));
}

// Copies, callbacks, memory of the graph's own and forked streams, captured anew each time.
void CaptureAndReplay(int thread, uint32_t round, std::atomic<int>* calls) {
  CUstream stream = nullptr, fork = nullptr;
  CUevent begin = nullptr, end = nullptr;
  CUdeviceptr at = 0;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&fork, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&begin, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventCreate(&end, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuMemAlloc_v2(&at, 2 * kBytes));
  std::vector<uint32_t> in(kCount), out(kCount);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_OK(cuMemcpyHtoDAsync_v2(at, in.data(), kBytes, stream));
  ASSERT_OK(cuEventRecord(begin, stream));
  ASSERT_OK(cuStreamWaitEvent(fork, begin, 0));
  ASSERT_OK(cuMemsetD32Async(at + kBytes, 1, kCount, fork));
  ASSERT_OK(LaunchAdd(Process::add, at + kBytes, kCount, 1, fork));
  ASSERT_OK(cuEventRecord(end, fork));
  ASSERT_OK(LaunchAdd(Process::add, at, kCount, 9, stream));
  ASSERT_OK(cuStreamWaitEvent(stream, end, 0));
  auto count_call = [](void* calls) { static_cast<std::atomic<int>*>(calls)->fetch_add(1); };
  ASSERT_OK(cuLaunchHostFunc(stream, count_call, calls));
  ASSERT_OK(cuMemcpyDtoHAsync_v2(out.data(), at, kBytes, stream));
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (uint32_t replay = 0; replay < 3; ++replay) {
    uint32_t value = 500 * static_cast<uint32_t>(thread) + 10 * round + replay;
    std::fill(in.begin(), in.end(), value);
    ASSERT_OK(cuGraphLaunch(exec, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    ASSERT_EQ(std::count(out.begin(), out.end(), value + 9), ptrdiff_t{kCount});
  }
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuMemFree_v2(at));
  ASSERT_OK(cuEventDestroy_v2(begin));
  ASSERT_OK(cuEventDestroy_v2(end));
  ASSERT_OK(cuStreamDestroy_v2(fork));
  ASSERT_OK(cuStreamDestroy_v2(stream));
}

TEST(InprocGraphs, CapturesWithForksAndCallbacksWhileTheLinkIsCut) {
  constexpr uint32_t kRounds = 6;
  Cutter cutter(7);
  std::atomic<int> calls{0};
  RunThreads([&](int thread) {
    for (uint32_t round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
      CaptureAndReplay(thread, round, &calls);
      cutter.MayCut();
    }
  });
  EXPECT_EQ(calls, static_cast<int>(3 * kThreads * kRounds));
}

}  // namespace
}  // namespace farcall::inproc_test
