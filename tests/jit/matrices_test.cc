// SPDX-License-Identifier: Apache-2.0
// Products of matrices in loops over threads: several in one go, the same as thread by thread.
#include <cstdlib>

#include "tests/jit/form_of.h"
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

// Each warp has a kilobyte of shared memory, of which each thread writes its 32 bytes, in each of n
// rounds made of what the products gave before. Threads from m on leave first.
constexpr char kBegin[] = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 d, .param .u32 n, .param .u32 m, .param .u32 far)
{
  .reg .pred %p<4>;
  .reg .b32 %r<32>;
  .reg .b32 %x<8>;
  .reg .b32 %a<8>;
  .reg .b32 %b<8>;
  .reg .f32 %c<16>;
  .reg .b64 %rd<8>;
  .reg .f64 %d<4>;
  .shared .align 16 .b8 s[4096];
  ld.param.u64 %rd1, [d];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r2, [m];
  ld.param.u32 %r3, [far];
  mov.u32 %r4, %tid.x;
  setp.ge.u32 %p1, %r4, %r2;
  @%p1 bra out;
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r5, s;
  shl.b32 %r6, %r4, 5;
  add.u32 %r6, %r5, %r6;
  shr.u32 %r7, %r4, 5;
  shl.b32 %r7, %r7, 10;
  and.b32 %r8, %r4, 31;
  shl.b32 %r8, %r8, 4;
  add.u32 %r7, %r7, %r8;
  add.u32 %r7, %r5, %r7;
  add.u32 %r7, %r7, %r3;
  mul.lo.u32 %x0, %r4, 0x9e3779b9;
  mul.lo.u32 %x1, %r4, 0x85ebca6b;
  mov.f32 %c0, 0f00000000;
  mov.f32 %c1, %c0;
  mov.f32 %c2, %c0;
  mov.f32 %c3, %c0;
  mov.f32 %c4, %c0;
  mov.f32 %c5, %c0;
  mov.f32 %c6, %c0;
  mov.f32 %c7, %c0;
  mov.f64 %d1, 0d3ff0000000000000;
  mov.f64 %d2, 0d0000000000000000;
  mov.f64 %d3, %d2;
  mov.u32 %r9, 0;
again:
  and.b32 %x2, %x0, 0x3bff3bff;
  and.b32 %x3, %x1, 0xbbffbbff;
  st.shared.v4.b32 [%r6], {%x2, %x3, %x3, %x2};
  st.shared.v4.b32 [%r6+16], {%x3, %x2, %x2, %x3};
  bar.sync 0;
)";
constexpr char kEnd[] = R"(
  bar.sync 0;
  add.f32 %c8, %c0, %c7;
  mov.b32 %r10, %c8;
  mad.lo.u32 %x0, %x0, 1664525, %r10;
  add.f32 %c8, %c3, %c4;
  mov.b32 %r10, %c8;
  mad.lo.u32 %x1, %x1, 22695477, %r10;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p2, %r9, %r1;
  @%p2 bra again;
  xor.b32 %r11, %x0, %x1;
  st.global.u32 [%rd2], %r11;
out:
  ret;
}
)";
constexpr char kLoads[] = R"(
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, [%r7];
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%b0, %b1}, [%r7+512];
)";
// A product goes on from the one before.
constexpr char kProducts[] = R"(
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c4, %c5, %c6, %c7}, {%a3, %a2, %a1, %a0}, {%b0, %b1}, {%c4, %c5, %c6, %c7};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0, %c1, %c2, %c3}, {%a2, %a1, %a0, %a3}, {%b1, %b0}, {%c0, %c1, %c2, %c3};
)";
// Memory changes between a product and what is read behind it, and between two loads of matrices.
constexpr char kStores[] = R"(
  ld.shared.b32 %r12, [%r6];
  bar.warp.sync 0xffffffff;
  st.shared.b32 [%r6], %r12;
  and.b32 %r13, %x1, 0x3bff3bff;
  st.shared.b32 [%r6+4], %r13;
  bar.warp.sync 0xffffffff;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a1}, [%r7];
  ld.shared.b32 %r12, [%r6+4];
  add.u32 %x1, %x1, %r12;
)";

// Sums of 64 bits, of which the second product takes those of the first; behind loads by generic
// addresses.
constexpr char kDoubles[] = R"(
  cvta.shared.u64 %rd3, s;
  cvt.u64.u32 %rd4, %r6;
  add.u64 %rd3, %rd3, %rd4;
  cvt.u64.u32 %rd4, %r5;
  sub.u64 %rd3, %rd3, %rd4;
  ld.b32 %r14, [%rd3];
  cvt.rn.f64.s32 %d0, %r14;
  wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn {%d2, %d3}, {%d0}, {%d1}, {%d2, %d3};
  ld.b32 %r15, [%rd3+4];
  cvt.rn.f64.s32 %d1, %r15;
  wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn {%d2, %d3}, {%d1}, {%d0}, {%d2, %d3};
  cvt.rzi.s64.f64 %rd4, %d3;
  cvt.u32.u64 %r15, %rd4;
  add.u32 %x1, %x1, %r15;
)";

class MatricesTest : public ProgramTest {
 protected:
  std::vector<uint32_t> Results(const std::string& text, const char* code, uint32_t threads,
                                uint32_t stay) {
    setenv("FARCALL_CPU_CODE", code, 1);
    Kernel* kernel = Find(Load(text), "k");
    DeviceArray<uint32_t> out(threads);
    EXPECT_RUNS(Run(kernel, {1}, {threads}, out.address(), 5u, stay, 0u));
    setenv("FARCALL_CPU_CODE", "full", 1);
    return {out.data(), out.data() + threads};
  }
  void SameByThread(const std::string& body) {
    const std::string text = kBegin + body + kEnd;
    EXPECT_EQ(FormOf(text), CodeForm::kRegions);
    EXPECT_EQ(FormOf(text, /*quick=*/true), CodeForm::kCoroutine);
    for (const auto& [threads, stay] : {std::pair{32u, 32u}, {96u, 96u}, {128u, 64u}}) {
      const std::vector<uint32_t> full = Results(text, "full", threads, stay);
      EXPECT_EQ(full, Results(text, "quick", threads, stay)) << threads;
      EXPECT_NE(full[0], full[stay - 1]);
      EXPECT_NE(full[0], 0u);
    }
  }
};

TEST_F(MatricesTest, ProductsAreLoopsOverThreads) {
  SameByThread(std::string(kLoads) + kProducts);
}

TEST_F(MatricesTest, ProductsWaitForOneAnother) {
  SameByThread(std::string(kLoads) + kProducts + kLoads + kProducts);
}

TEST_F(MatricesTest, WhatIsWrittenInBetweenIsSeen) {
  SameByThread(std::string(kLoads) + kProducts + kStores + kProducts);
  SameByThread(std::string(kLoads) + kStores + kLoads + kProducts);
}

TEST_F(MatricesTest, DoublesGoFromProductToProduct) {
  SameByThread(kDoubles);
}

TEST_F(MatricesTest, ARowOutsideOfSharedMemoryIsAFault) {
  for (const char* code : {"quick", "full"}) {
    setenv("FARCALL_CPU_CODE", code, 1);
    Kernel* kernel = Find(Load(std::string(kBegin) + kLoads + kProducts + kEnd), "k");
    DeviceArray<uint32_t> out(32);
    for (const auto& [far, status] :
         {std::pair{4096u, ExecStatus::kIllegalAddress}, {2u, ExecStatus::kMisaligned}}) {
      const ExecResult result = Run(kernel, {1}, {32}, out.address(), 5u, 32u, far);
      EXPECT_EQ(result.status, status) << code << ": " << result.message;
    }
  }
  setenv("FARCALL_CPU_CODE", "full", 1);
}

}  // namespace
}  // namespace farcall::cpu_device
