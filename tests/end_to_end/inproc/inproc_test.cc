// SPDX-License-Identifier: Apache-2.0
// The client's core and entries, a server session and the CPU device in one process, used from many
// threads at once. What is computed is checked; what a sanitizer sees is the point.
#include <atomic>
#include <numeric>
#include <vector>

#include "client-shim/core/nvml_channel.h"
#include "tests/end_to_end/inproc/inproc_process.h"

namespace farcall::inproc_test {
namespace {

// One thread's round: its own stream and memory, every kind of asynchronous call, then the check.
void Round(int thread, int round, std::atomic<int>* host_calls) {
  // Sizes on both sides of what travels inline.
  const size_t count = round % 3 == 0 ? 60'000 : 500 + 37 * static_cast<size_t>(thread);
  const uint32_t first = static_cast<uint32_t>(1000 * thread + round);
  std::vector<uint32_t> sent(count), got(count, 0);
  std::iota(sent.begin(), sent.end(), first);
  CUstream stream = nullptr, second = nullptr;
  CUevent event = nullptr, timed = nullptr;
  CUdeviceptr at = 0, copy = 0;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&second, round % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
  ASSERT_OK(cuMemAlloc_v2(&at, count * 4));
  ASSERT_OK(cuMemAllocAsync(&copy, count * 4, second));
  ASSERT_OK(cuEventRecord(timed, second));
  ASSERT_OK(cuStreamWaitEvent(stream, timed, 0));
  ASSERT_OK(cuMemcpyHtoDAsync_v2(at, sent.data(), count * 4, stream));
  for (uint32_t i = 1; i <= 3; ++i)
    ASSERT_OK(LaunchAdd(Process::add, at, static_cast<uint32_t>(count), i, stream));
  auto count_call = [](void* calls) { static_cast<std::atomic<int>*>(calls)->fetch_add(1); };
  ASSERT_OK(cuLaunchHostFunc(stream, count_call, host_calls));
  ASSERT_OK(cuEventRecord(event, stream));
  ASSERT_OK(cuStreamWaitEvent(second, event, 0));
  ASSERT_OK(cuMemcpyDtoDAsync_v2(copy, at, count * 4, second));
  ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), copy, count * 4, second));
  CUresult query = cuStreamQuery(second);
  ASSERT_TRUE(query == CUDA_SUCCESS || query == CUDA_ERROR_NOT_READY) << query;
  ASSERT_OK(cuStreamSynchronize(second));
  ASSERT_OK(cuEventSynchronize(event));
  ASSERT_OK(cuEventQuery(event));
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(got[i], sent[i] + 6) << "word " << i << " of thread " << thread;
  ASSERT_OK(cuMemFreeAsync(copy, second));
  ASSERT_OK(cuMemFree_v2(at));
  ASSERT_OK(cuEventDestroy_v2(event));
  ASSERT_OK(cuEventDestroy_v2(timed));
  ASSERT_OK(cuStreamDestroy_v2(stream));
  ASSERT_OK(cuStreamDestroy_v2(second));
}

TEST(Inproc, ManyThreadsUseStreamsEventsCopiesAndCallbacks) {
  constexpr int kRounds = 40;
  std::atomic<int> host_calls{0};
  RunThreads([&](int thread) {
    for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round)
      Round(thread, round, &host_calls);
  });
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(host_calls, kThreads * kRounds);
}

TEST(Inproc, WorkGoesOnWhileTheLinkIsCut) {
  constexpr int kRounds = 24, kRoundsOfACut = 5;
  std::atomic<int> host_calls{0}, done{0};
  RunThreads([&](int thread) {
    for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
      Round(thread, round, &host_calls);
      // The other threads are amid theirs.
      if (done.fetch_add(1) % kRoundsOfACut == 0) Process::server->Cut();
    }
  });
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(host_calls, kThreads * kRounds);
  EXPECT_GE(Process::server->resumes(), 1);
}

TEST(Inproc, ThreadsShareAStreamAndTheLegacyOne) {
  constexpr int kRounds = 40;
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAlloc_v2(&at, 256 * 4));
  ASSERT_OK(cuMemsetD32_v2(at, 0, 256));
  CUstream shared = nullptr;
  ASSERT_OK(cuStreamCreate(&shared, CU_STREAM_DEFAULT));
  RunThreads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      // Half on the shared stream, half on the legacy one, which waits for it and it for that.
      CUstream stream = (thread + round) % 2 == 0 ? shared : CU_STREAM_LEGACY;
      ASSERT_OK(LaunchAdd(Process::add, at, 256, 1, stream));
      if (round % 8 == 7) ASSERT_OK(cuStreamSynchronize(stream));
    }
  });
  std::vector<uint32_t> got(256);
  ASSERT_OK(cuMemcpyDtoH_v2(got.data(), at, got.size() * 4));
  for (uint32_t word : got) ASSERT_EQ(word, uint32_t{kThreads * kRounds});
  EXPECT_OK(cuStreamDestroy_v2(shared));
  EXPECT_OK(cuMemFree_v2(at));
}

TEST(Inproc, ModulesComeAndGoWhileOthersLaunch) {
  RunThreads([&](int thread) {
    CUdeviceptr at = 0;
    ASSERT_OK(cuMemAlloc_v2(&at, 64 * 4));
    for (int round = 0; round < 4; ++round) {
      CUmodule module = nullptr;
      CUfunction add = nullptr;
      ASSERT_OK(cuModuleLoadData(&module, kPtx));
      ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
      uint32_t value = static_cast<uint32_t>(thread + round), got = 0;
      ASSERT_OK(cuMemsetD32Async(at, 5, 64, CU_STREAM_PER_THREAD));
      ASSERT_OK(LaunchAdd(add, at, 64, value, CU_STREAM_PER_THREAD));
      ASSERT_OK(cuMemcpyDtoHAsync_v2(&got, at + 63 * 4, 4, CU_STREAM_PER_THREAD));
      ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
      ASSERT_EQ(got, value + 5);
      ASSERT_OK(cuModuleUnload(module));
      size_t free_bytes = 0, total_bytes = 0;
      ASSERT_OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
      ASSERT_LT(free_bytes, total_bytes);
    }
    ASSERT_OK(cuMemFree_v2(at));
  });
}

// This server names no feature, as one does that is older than NVML: it would take the message for
// a lie, and end the session.
TEST(Inproc, AnOldServerIsNotAskedForNvml) {
  const std::vector<std::byte> body(8);
  auto take = [](void*, const void*, size_t) { FAIL() << "an answer"; };
  EXPECT_EQ(client::TheNvmlChannel()->ask(-1, body.data(), body.size(), take, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAlloc_v2(&at, 64));
  EXPECT_OK(cuMemFree_v2(at));
}

TEST(Inproc, GraphsAreCapturedAndLaunchedByEachThread) {
  RunThreads([&](int thread) {
    CUdeviceptr at = 0;
    CUstream stream = nullptr;
    ASSERT_OK(cuMemAlloc_v2(&at, 128 * 4));
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemsetD32Async(at, 0, 128, stream));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ASSERT_OK(LaunchAdd(Process::add, at, 128, static_cast<uint32_t>(thread + 1), stream));
    ASSERT_OK(LaunchAdd(Process::add, at, 128, 10, stream));
    ASSERT_OK(cuStreamEndCapture(stream, &graph));
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 5; ++i) ASSERT_OK(cuGraphLaunch(exec, stream));
    std::vector<uint32_t> got(128);
    ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), at, got.size() * 4, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    for (uint32_t word : got) ASSERT_EQ(word, 5u * static_cast<uint32_t>(thread + 11));
    ASSERT_OK(cuGraphExecDestroy(exec));
    ASSERT_OK(cuGraphDestroy(graph));
    ASSERT_OK(cuStreamDestroy_v2(stream));
    ASSERT_OK(cuMemFree_v2(at));
  });
}

}  // namespace
}  // namespace farcall::inproc_test
