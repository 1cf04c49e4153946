// SPDX-License-Identifier: Apache-2.0
// The client's core and entries, a server session and the CPU device in one process, used from many
// threads at once. What is computed is checked; what a sanitizer sees is the point.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "client-shim/core/session.h"
#include "tests/end_to_end/inproc/inproc_server.h"

namespace farcall::inproc_test {
namespace {

constexpr int kThreads = 4;
constexpr uint32_t kBlock = 64;

// Adds `value` to each of `count` words.
constexpr const char* kPtx = R"(
.version 7.5
.target sm_75
.address_size 64
.visible .entry add(.param .u64 at, .param .u32 count, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [value];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r6, 4;
  add.u64 %rd4, %rd2, %rd3;
  ld.global.u32 %r7, [%rd4];
  add.u32 %r8, %r7, %r2;
  st.global.u32 [%rd4], %r8;
done:
  ret;
}
)";

#define ASSERT_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

// One server, one client session, for the life of the process.
class Process : public ::testing::Environment {
 public:
  void SetUp() override {
    setenv("FARCALL_CPU_MEM", "256MiB", 0);
    setenv("FARCALL_CPU_CACHE", FARCALL_TEST_CACHE, 0);
    setenv("FARCALL_CACHE_DIR", FARCALL_TEST_CACHE, 0);
    setenv("FARCALL_LOG", "error", 0);
    unsetenv("FARCALL_TOKEN");
    unsetenv("FARCALL_TOKEN_FILE");
    Result<std::unique_ptr<InprocServer>> started = InprocServer::Start(FARCALL_DEVICE_LIBRARY);
    ASSERT_TRUE(started.ok()) << started.status().message();
    server = std::move(*started);
    setenv("FARCALL_ENDPOINT", server->url(), 1);
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
    ASSERT_OK(cuCtxSetCurrent(context));
    ASSERT_OK(cuModuleLoadData(&module, kPtx));
    ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
  }
  void TearDown() override {
    if (client::CurrentSession() == nullptr) {
      return;
    }
    EXPECT_OK(cuModuleUnload(module));
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    client::CurrentSession()->Leave(CUDA_ERROR_DEINITIALIZED);
    (void)server->Join();
    server.reset();
  }

  static std::unique_ptr<InprocServer> server;
  static CUcontext context;
  static CUmodule module;
  static CUfunction add;
};
std::unique_ptr<InprocServer> Process::server;
CUcontext Process::context;
CUmodule Process::module;
CUfunction Process::add;

CUresult LaunchAdd(CUfunction add, CUdeviceptr at, uint32_t count, uint32_t value,
                   CUstream stream) {
  void* arguments[] = {&at, &count, &value};
  return cuLaunchKernel(add, (count + kBlock - 1) / kBlock, 1, 1, kBlock, 1, 1, 0, stream,
                        arguments, nullptr);
}

void RunThreads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&body, i] {
      ASSERT_OK(cuCtxSetCurrent(Process::context));
      body(i);
      EXPECT_OK(cuCtxSetCurrent(nullptr));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

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
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_OK(LaunchAdd(Process::add, at, static_cast<uint32_t>(count), i, stream));
  }
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
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(got[i], sent[i] + 6) << "word " << i << " of thread " << thread;
  }
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
    for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
      Round(thread, round, &host_calls);
    }
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
      if (done.fetch_add(1) % kRoundsOfACut == 0) {
        Process::server->Cut();
      }
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
      if (round % 8 == 7) {
        ASSERT_OK(cuStreamSynchronize(stream));
      }
    }
  });
  std::vector<uint32_t> got(256);
  ASSERT_OK(cuMemcpyDtoH_v2(got.data(), at, got.size() * 4));
  for (uint32_t word : got) {
    ASSERT_EQ(word, uint32_t{kThreads * kRounds});
  }
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
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK(cuGraphLaunch(exec, stream));
    }
    std::vector<uint32_t> got(128);
    ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), at, got.size() * 4, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    for (uint32_t word : got) {
      ASSERT_EQ(word, 5u * static_cast<uint32_t>(thread + 11));
    }
    ASSERT_OK(cuGraphExecDestroy(exec));
    ASSERT_OK(cuGraphDestroy(graph));
    ASSERT_OK(cuStreamDestroy_v2(stream));
    ASSERT_OK(cuMemFree_v2(at));
  });
}

}  // namespace
}  // namespace farcall::inproc_test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new farcall::inproc_test::Process);
  return RUN_ALL_TESTS();
}
