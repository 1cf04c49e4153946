// SPDX-License-Identifier: Apache-2.0
// Kernels that launch kernels, by the calls that libcudadevrt makes of cudaLaunchDevice and others.
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

// Append writes a value behind those that are in the log; log[0] counts them.
constexpr char kKernels[] = R"(
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2(.param .b64 a,
    .param .align 4 .b8 b[12], .param .align 4 .b8 c[12], .param .b32 d);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 a, .param .b64 b);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2GetLastError();
.extern .func (.param .b32 r) __cuda_syscall_cnpv2StreamCreate(.param .b64 a, .param .b32 b);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2StreamDestroy(.param .b64 a);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2FuncGetAttribute(.param .b64 a, .param .b32 b,
    .param .b64 c);

.func append(.param .b64 log, .param .b32 value)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [log];
  ld.param.u32 %r1, [value];
  atom.add.u32 %r2, [%rd1], 1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.u32 [%rd3+4], %r1;
  ret;
}
.visible .entry Append(.param .u64 log, .param .u32 value)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [log];
  ld.param.u32 %r1, [value];
  call append, (%rd1, %r1);
  ret;
}
.visible .entry Fail(.param .u64 log, .param .u32 value)
{
  trap;
}
// What <<<1, threads, 0, stream>>>(log, value) becomes; the launch's result, or 999 without one.
.func (.param .b32 result) launch(.param .b64 kernel, .param .b32 threads, .param .b64 stream,
    .param .b64 log, .param .b32 value)
{
  .reg .pred %p;
  .reg .b64 %rd<5>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [kernel];
  ld.param.u32 %r1, [threads];
  ld.param.u64 %rd2, [stream];
  ld.param.u64 %rd3, [log];
  ld.param.u32 %r2, [value];
  .param .align 4 .b8 grid[12];
  st.param.b32 [grid], 1;
  st.param.b32 [grid+4], 1;
  st.param.b32 [grid+8], 1;
  .param .align 4 .b8 block[12];
  st.param.b32 [block], %r1;
  st.param.b32 [block+4], 1;
  st.param.b32 [block+8], 1;
  .param .b64 of;
  st.param.b64 [of], %rd1;
  .param .b32 shared;
  st.param.b32 [shared], 0;
  .param .b64 buffer;
  call.uni (buffer), __cuda_syscall_cnpv2GetParameterBufferV2, (of, grid, block, shared);
  ld.param.b64 %rd4, [buffer];
  mov.u32 %r3, 999;
  setp.eq.u64 %p, %rd4, 0;
  @%p bra done;
  st.u64 [%rd4], %rd3;
  st.u32 [%rd4+8], %r2;
  .param .b32 launched;
  call.uni (launched), __cuda_syscall_cnpv2LaunchDeviceV2, (%rd4, %rd2);
  ld.param.b32 %r3, [launched];
done:
  st.param.b32 [result], %r3;
  ret;
}
// The children's order: those of streams as launched, the tail's last, the parent before all.
.visible .entry Order(.param .u64 log)
{
  .reg .b64 %rd<5>;
  .reg .b32 %r<3>;
  .local .align 8 .b8 handle[8];
  ld.param.u64 %rd1, [log];
  mov.u64 %rd2, Append;
  call (%r1), launch, (%rd2, 1, 3, %rd1, 30);
  call (%r1), launch, (%rd2, 1, 0, %rd1, 10);
  mov.u64 %rd3, handle;
  cvta.local.u64 %rd3, %rd3;
  call (%r1), __cuda_syscall_cnpv2StreamCreate, (%rd3, 1);
  ld.u64 %rd4, [%rd3];
  call (%r1), launch, (%rd2, 2, %rd4, %rd1, 20);
  call (%r1), __cuda_syscall_cnpv2StreamDestroy, (%rd4);
  call append, (%rd1, 5);
  ret;
}
// Into log[1] and on: what wrong launches say, and this thread's last error.
.visible .entry Wrong(.param .u64 log)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [log];
  mov.u64 %rd2, Append;
  call (%r1), launch, (%rd2, 1, 4711, %rd1, 1);
  call append, (%rd1, %r1);
  call (%r1), launch, (%rd1, 1, 0, %rd1, 1);
  call append, (%rd1, %r1);
  call (%r1), __cuda_syscall_cnpv2GetLastError, ();
  call append, (%rd1, %r1);
  call (%r1), launch, (%rd2, 1025, 0, %rd1, 1);
  call append, (%rd1, %r1);
  call (%r1), __cuda_syscall_cnpv2GetLastError, ();
  call append, (%rd1, %r1);
  ret;
}
.visible .entry Deep(.param .u64 log, .param .u32 depth)
{
  .reg .pred %p;
  .reg .b64 %rd<3>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [log];
  ld.param.u32 %r1, [depth];
  call append, (%rd1, %r1);
  add.u32 %r1, %r1, 1;
  mov.u64 %rd2, Deep;
  call (%r2), launch, (%rd2, 1, 0, %rd1, %r1);
  setp.eq.u32 %p, %r2, 0;
  @%p bra done;
  call (%r3), __cuda_syscall_cnpv2GetLastError, ();
  call append, (%rd1, %r3);
done:
  ret;
}
.visible .entry WithAFailure(.param .u64 log)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [log];
  mov.u64 %rd2, Fail;
  mov.u64 %rd3, Append;
  call (%r1), launch, (%rd2, 1, 0, %rd1, 1);
  call (%r1), launch, (%rd3, 1, 0, %rd1, 1);
  ret;
}
.visible .entry Attribute(.param .u64 to, .param .u32 attribute)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [attribute];
  mov.u64 %rd2, Limited;
  call (%r2), __cuda_syscall_cnpv2FuncGetAttribute, (%rd1, %r1, %rd2);
  ret;
}
.visible .entry Limited()
.maxntid 96
{
  .shared .b8 own[40];
  .reg .b32 %r;
  ld.shared.u32 %r, [own];
  st.shared.u32 [own+4], %r;
  ret;
}
)";

class ChildGridsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    constexpr uint64_t kHeapBytes = 64 << 10;
    SetDeviceHeap(TestMemory::Get().Allocate(kHeapBytes, 256), kHeapBytes);
    program_ = Load(kKernels);
  }
  std::vector<uint32_t> LogOf(DeviceArray<uint32_t>& log) {
    return {log.data() + 1, log.data() + 1 + log[0]};
  }
  Program* program_ = nullptr;
};

TEST_F(ChildGridsTest, ChildrenRunBehindTheirParentTheTailLast) {
  DeviceArray<uint32_t> log(16);
  EXPECT_RUNS(Run(Find(program_, "Order"), {1}, {1}, log.address()));
  EXPECT_EQ(LogOf(log), (std::vector<uint32_t>{5, 10, 20, 20, 30}));
}

TEST_F(ChildGridsTest, EachBlockAndThreadLaunchesItsOwn) {
  DeviceArray<uint32_t> log(6 * 5 + 1);
  EXPECT_RUNS(Run(Find(program_, "Order"), {3}, {2}, log.address()));
  std::map<uint32_t, int> counts;
  for (const uint32_t value : LogOf(log)) ++counts[value];
  EXPECT_EQ(counts, (std::map<uint32_t, int>{{5, 6}, {10, 6}, {20, 12}, {30, 6}}));
}

TEST_F(ChildGridsTest, WrongLaunchesAreErrorsOfTheirThread) {
  DeviceArray<uint32_t> log(8);
  EXPECT_RUNS(Run(Find(program_, "Wrong"), {1}, {1}, log.address()));
  // A stream that is none: 1. No kernel: nothing to launch, cudaErrorInvalidValue. Too many
  // threads: cudaErrorInvalidConfiguration.
  EXPECT_EQ(LogOf(log), (std::vector<uint32_t>{1, 999, 1, 999, 9}));
}

TEST_F(ChildGridsTest, NestedOnceTooOftenIsAnError) {
  DeviceArray<uint32_t> log(40);
  EXPECT_RUNS(Run(Find(program_, "Deep"), {1}, {1}, log.address(), 0u));
  std::vector<uint32_t> expected;
  for (uint32_t depth = 0; depth <= 24; ++depth) expected.push_back(depth);
  expected.push_back(65);  // cudaErrorLaunchMaxDepthExceeded
  EXPECT_EQ(LogOf(log), expected);
}

TEST_F(ChildGridsTest, AChildsFailureIsItsParents) {
  DeviceArray<uint32_t> log(4);
  const ExecResult result = Run(Find(program_, "WithAFailure"), {1}, {1}, log.address());
  EXPECT_EQ(result.status, ExecStatus::kTrap) << result.message;
  EXPECT_NE(result.message.find("kernel Fail"), std::string::npos) << result.message;
  EXPECT_EQ(log[0], 0u);
}

TEST_F(ChildGridsTest, AFullHeapIsAnErrorOfTheLaunch) {
  SetDeviceHeap(0, 0);
  DeviceArray<uint32_t> log(4);
  EXPECT_RUNS(Run(Find(program_, "Deep"), {1}, {1}, log.address(), 7u));
  EXPECT_EQ(LogOf(log), (std::vector<uint32_t>{7, 69}));  // cudaErrorLaunchPendingCountExceeded
}

TEST_F(ChildGridsTest, AKernelKnowsTheAttributesOfAnother) {
  DeviceArray<uint64_t> out(1);
  Kernel* kernel = Find(program_, "Attribute");
  EXPECT_RUNS(Run(kernel, {1}, {1}, out.address(), 0u));
  EXPECT_EQ(out[0], 96u);
  EXPECT_RUNS(Run(kernel, {1}, {1}, out.address(), 1u));
  EXPECT_EQ(out[0], 40u);
  // What it may not write to ends it.
  const ExecResult result = Run(kernel, {1}, {1}, uint64_t{4096}, 1u);
  EXPECT_EQ(result.status, ExecStatus::kIllegalAddress) << result.message;
}

}  // namespace
}  // namespace farcall::cpu_device
