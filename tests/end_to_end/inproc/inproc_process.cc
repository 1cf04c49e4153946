// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/inproc/inproc_process.h"

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "client-shim/core/session/session.h"
#include "tests/end_to_end/inproc/apart_server.h"
#include "tests/end_to_end/inproc/inproc_server.h"

#ifdef __SANITIZE_ADDRESS__
// The server's process is a forked child. The client's state, whose locks may be held there, it
// leaves behind on purpose.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:client-shim/core/session/thread_state.cc\nleak:client-shim/core/connection/"
         "lifecycle.cc\n";
}
#endif

namespace farcall::inproc_test {

namespace {
constexpr uint32_t kBlock = 64;
}  // namespace

// Adds `value` to each of `count` words.
const char* const kPtx = R"(
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

bool Process::is_apart = false;
std::unique_ptr<TestServer> Process::server;
CUcontext Process::context;
CUmodule Process::module;
CUfunction Process::add;

void Process::SetUp() {
  setenv("FARCALL_CPU_MEM", "256MiB", 0);
  setenv("FARCALL_CPU_CACHE", FARCALL_TEST_CACHE, 0);
  setenv("FARCALL_CACHE_DIR", FARCALL_TEST_CACHE, 0);
  setenv("FARCALL_LOG", "error", 0);
  unsetenv("FARCALL_TOKEN");
  unsetenv("FARCALL_TOKEN_FILE");
  if (is_apart) {
    Result<std::unique_ptr<ApartServer>> started = ApartServer::Start(FARCALL_DEVICE_LIBRARY);
    ASSERT_TRUE(started.ok()) << started.status().message();
    server = std::move(*started);
  } else {
    Result<std::unique_ptr<InprocServer>> started =
        InprocServer::Start(FARCALL_DEVICE_LIBRARY, InprocServer::kInprocUrl);
    ASSERT_TRUE(started.ok()) << started.status().message();
    server = std::move(*started);
  }
  setenv("FARCALL_ENDPOINT", server->url().c_str(), 1);
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
}

void Process::TearDown() {
  if (client::CurrentSession() == nullptr) return;
  EXPECT_OK(cuModuleUnload(module));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
  client::CurrentSession()->Leave(CUDA_ERROR_DEINITIALIZED);
  Status ended = server->Join();
  EXPECT_TRUE(ended.ok() || !is_apart) << ended.message();
  server.reset();
}

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
  for (std::thread& thread : threads) thread.join();
}

}  // namespace farcall::inproc_test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  farcall::inproc_test::Process::is_apart = argc > 1 && std::strcmp(argv[1], "--apart") == 0;
  ::testing::AddGlobalTestEnvironment(new farcall::inproc_test::Process);
  return RUN_ALL_TESTS();
}
