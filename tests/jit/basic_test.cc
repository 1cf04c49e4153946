// SPDX-License-Identifier: Apache-2.0
// Hand-written PTX: one thread's arithmetic, memory, control flow.
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr char kVectorAdd[] = R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $L__BB0_2;
  cvta.to.global.u64 %rd4, %rd1;
  mul.wide.s32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
  cvta.to.global.u64 %rd7, %rd2;
  add.s64 %rd8, %rd7, %rd5;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f2, %f1;
  cvta.to.global.u64 %rd9, %rd3;
  add.s64 %rd10, %rd9, %rd5;
  st.global.f32 [%rd10], %f3;
$L__BB0_2:
  ret;
}
)";

class BasicTest : public ProgramTest {};

TEST_F(BasicTest, VectorAddEqualsTheHostsSums) {
  Kernel* kernel = Find(Load(kVectorAdd), "vector_add");
  ASSERT_NE(kernel, nullptr);
  constexpr int kCount = 100003;
  DeviceArray<float> a(kCount), b(kCount), c(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = 0.25f * i;
    b[i] = 1.0f / (i + 1);
  }
  EXPECT_RUNS(
      Run(kernel, {(kCount + 255) / 256}, {256}, a.address(), b.address(), c.address(), kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
}

// As on a GPU, whose windows begin at a multiple of everything: generic addresses of local and of
// shared variables have the alignment that PTX gives them, in every thread.
TEST_F(BasicTest, LocalAndSharedVariablesAreAlignedAsDeclared) {
  Kernel* kernel = Find(Load(R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry aligned(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  .local .align 256 .b8 mine[8];
  .shared .align 4 .b8 before[4];
  .shared .align 1024 .b8 ours[8];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  st.shared.u32 [before], %r1;
  st.local.u32 [mine], %r1;
  bar.sync 0;
  mov.u64 %rd2, mine;
  cvta.local.u64 %rd2, %rd2;
  and.b64 %rd2, %rd2, 255;
  mov.u64 %rd3, ours;
  cvta.shared.u64 %rd3, %rd3;
  and.b64 %rd3, %rd3, 1023;
  or.b64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd4, %r1, 8;
  add.u64 %rd4, %rd1, %rd4;
  st.global.u64 [%rd4], %rd2;
  ret;
}
)"),
                        "aligned");
  ASSERT_NE(kernel, nullptr);
  constexpr int kCount = 64;
  DeviceArray<uint64_t> out(std::vector<uint64_t>(kCount, 1));
  EXPECT_RUNS(Run(kernel, {1}, {kCount}, out.address()));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(out[i], 0u) << i;
}

// Cooperative groups of several warps meet there, whatever the kernel has of its own.
TEST_F(BasicTest, ReservedSharedMemoryIsNobodyElses) {
  Kernel* kernel = Find(Load(R"(
.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 more[];
.visible .entry reserved(.param .u64 out)
{
  .reg .b32 %r<12>;
  .reg .b64 %rd<3>;
  .shared .align 4 .b8 own[256];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, own;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], 1;
  mov.u32 %r4, more;
  add.u32 %r4, %r4, %r2;
  st.shared.u32 [%r4], 20;
  mov.u32 %r5, %reserved_smem_offset_1;
  add.u32 %r5, %r5, %r2;
  st.shared.u32 [%r5], 300;
  bar.sync 0;
  ld.shared.u32 %r6, [%r3];
  ld.shared.u32 %r7, [%r4];
  ld.shared.u32 %r8, [%r5];
  add.u32 %r6, %r6, %r7;
  add.u32 %r6, %r6, %r8;
  mov.u32 %r9, %reserved_smem_offset_end;
  mov.u32 %r10, %reserved_smem_offset_begin;
  sub.u32 %r9, %r9, %r10;
  mov.u32 %r11, %reserved_smem_offset_cap;
  sub.u32 %r9, %r9, %r11;
  add.u32 %r6, %r6, %r9;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r6;
  ret;
}
)"),
                        "reserved");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->info().static_shared_bytes, 256u);
  constexpr uint32_t kCount = 64, kMaxShared = 227 << 10;
  for (uint32_t dynamic : {256u, kMaxShared - 256}) {
    DeviceArray<uint32_t> out(kCount);
    EXPECT_RUNS(RunShared(kernel, {1}, {kCount}, dynamic, out.address()));
    for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], 321u) << i;
  }
}

// Neither the threads of a block nor a thread's own loop: LLVM 19's check for it says too little.
TEST_F(BasicTest, PlacesThatWrapAroundInAFewBitsAreFound) {
  Kernel* kernel = Find(Load(R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry wraps(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<12>;
  .shared .align 4 .b8 words[512];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  add.u32 %r5, %r1, 1000;
  st.shared.u32 [%r4], %r5;
  bar.sync 0;
  mul.lo.u32 %r6, %r1, 12;
  and.b32 %r6, %r6, 508;
  add.u32 %r6, %r2, %r6;
  ld.shared.u32 %r7, [%r6];
  bar.sync 0;
  ld.shared.u32 %r8, [%r4];
  mul.lo.u32 %r9, %r1, 20;
  and.b32 %r9, %r9, 508;
  cvt.u64.u32 %rd3, %r9;
  add.u64 %rd3, %rd1, %rd3;
  ld.global.u32 %r10, [%rd3];
  bar.sync 0;
  mov.u32 %r11, 0;
  mov.u32 %r12, 0;
turn:
  mul.lo.u32 %r13, %r11, 28;
  and.b32 %r13, %r13, 508;
  add.u32 %r13, %r2, %r13;
  ld.shared.u32 %r14, [%r13];
  add.u32 %r12, %r12, %r14;
  add.u32 %r11, %r11, 1;
  setp.le.u32 %p1, %r11, %r1;
  @%p1 bra turn;
  shl.b32 %r15, %r1, 4;
  cvt.u64.u32 %rd4, %r15;
  add.u64 %rd4, %rd2, %rd4;
  st.global.v4.u32 [%rd4], {%r7, %r8, %r10, %r12};
  ret;
}
)"),
                        "wraps");
  ASSERT_NE(kernel, nullptr);
  constexpr uint32_t kCount = 128;
  std::vector<uint32_t> values(kCount);
  for (uint32_t i = 0; i < kCount; ++i) values[i] = 5000 + i * i;
  DeviceArray<uint32_t> in(values), out(4 * kCount);
  EXPECT_RUNS(Run(kernel, {1}, {kCount}, in.address(), out.address()));
  uint32_t sum = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    sum += 1000 + i * 7 % kCount;
    EXPECT_EQ(out[4 * i], 1000 + i * 3 % kCount) << i;
    EXPECT_EQ(out[4 * i + 1], 1000 + i) << i;
    EXPECT_EQ(out[4 * i + 2], values[i * 5 % kCount]) << i;
    EXPECT_EQ(out[4 * i + 3], sum) << i;
  }
}

// A warp in lockstep: all read word 0 before thread 0 clears it, and sums need no bar.warp.sync.
TEST_F(BasicTest, VolatileSharedMemoryIsSeenAsByAWarpInLockstep) {
  Kernel* kernel = Find(Load(R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry lockstep(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 words[512];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  add.u32 %r5, %r1, 5;
  st.volatile.shared.u32 [%r4], %r5;
  bar.warp.sync -1;
  ld.volatile.shared.u32 %r6, [words];
  st.volatile.shared.u32 [%r4], %r1;
  mov.u32 %r7, 16;
again:
  shl.b32 %r8, %r7, 2;
  add.u32 %r8, %r4, %r8;
  ld.volatile.shared.u32 %r9, [%r4];
  ld.volatile.shared.u32 %r10, [%r8];
  add.u32 %r9, %r9, %r10;
  st.volatile.shared.u32 [%r4], %r9;
  shr.u32 %r7, %r7, 1;
  setp.ne.u32 %p1, %r7, 0;
  @%p1 bra again;
  ld.volatile.shared.u32 %r9, [words];
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd2, %rd1, %rd2;
  st.global.v2.u32 [%rd2], {%r6, %r9};
  ret;
}
)"),
                        "lockstep");
  ASSERT_NE(kernel, nullptr);
  DeviceArray<uint32_t> out(64);
  EXPECT_RUNS(Run(kernel, {1}, {32}, out.address()));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[2 * i], 5u) << i;
    EXPECT_EQ(out[2 * i + 1], 31u * 32 / 2) << i;
  }
}

TEST_F(BasicTest, KernelInfoTellsTheParameterLayout) {
  Kernel* kernel = Find(Load(kVectorAdd), "vector_add");
  ASSERT_NE(kernel, nullptr);
  const KernelInfo& info = kernel->info();
  ASSERT_EQ(info.params.size(), 4u);
  EXPECT_EQ(info.params[3].offset_bytes, 24u);
  EXPECT_EQ(info.params[3].size_bytes, 4u);
  EXPECT_EQ(info.param_bytes, 28u);
  EXPECT_EQ(info.ptx_version, 75u);
  EXPECT_EQ(info.max_threads_per_block, 1024u);
}

}  // namespace
}  // namespace farcall::cpu_device
