// SPDX-License-Identifier: Apache-2.0
// Quick and optimised code of a kernel: the same results, the same faults, and which of them runs.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

namespace fs = std::filesystem;

constexpr char kHead[] = ".version 7.5\n.target sm_75\n.address_size 64\n";

// d[0] = x - q * p, as compilers write it when they leave the choice of an fma to ptxas, and
// d[1] = x - q * q as they write it when they do not.
constexpr char kFused[] = R"(
.visible .entry k(.param .u64 d, .param .f64 x, .param .f64 q, .param .f64 p)
{
  .reg .f64 %f<6>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [d];
  ld.param.f64 %f1, [x];
  ld.param.f64 %f2, [q];
  ld.param.f64 %f3, [p];
  mul.f64 %f4, %f2, %f3;
  sub.f64 %f5, %f1, %f4;
  st.global.f64 [%rd1], %f5;
  mul.rn.f64 %f4, %f2, %f2;
  sub.f64 %f5, %f1, %f4;
  st.global.f64 [%rd1+8], %f5;
  ret;
}
)";

// d[tid] = tid
constexpr char kStore[] = R"(
.visible .entry k(.param .u64 d)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [d];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

// d[block] = n, counted one by one.
constexpr char kCount[] = R"(
.visible .entry k(.param .u64 d, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [d];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  mov.u32 %r3, 0;
again:
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [%rd3], %r3;
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra again;
  ret;
}
)";

class CodeTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    char pattern[] = "/tmp/farcall_code_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    cache_ = pattern;
    if (const char* choice = getenv("FARCALL_CPU_CODE")) choice_ = choice;
    unsetenv("FARCALL_CPU_CODE");
    ExecutorOptions options = TestOptions();
    options.cache_dir = cache_;
    ConfigureExecutor(options);
  }
  void TearDown() override {
    ConfigureExecutor(TestOptions());
    fs::remove_all(cache_);
    if (!choice_.empty()) setenv("FARCALL_CPU_CODE", choice_.c_str(), 1);
  }
  Kernel* Made(const char* text, const char* code) {
    if (*code) setenv("FARCALL_CPU_CODE", code, 1);
    Kernel* kernel = Find(Load(std::string(kHead) + text), "k");
    EXPECT_TRUE(kernel->Prepare().ok());
    unsetenv("FARCALL_CPU_CODE");
    return kernel;
  }
  // Kept codes: of a kernel that was optimised there are two.
  size_t Codes() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(cache_), {}));
  }

  std::string cache_, choice_;
};

TEST_F(CodeTest, AProductWithoutRoundingGoesIntoItsSumOnce) {
  const double x = 1.0, q = 1.0 + 0x1p-30, p = 1.0 - 0x1p-30;
  for (const char* code : {"quick", "full"}) {
    DeviceArray<double> d(2);
    ASSERT_TRUE(Run(Made(kFused, code), {1}, {1}, d.address(), x, q, p).ok());
    EXPECT_EQ(d[0], std::fma(-q, p, x)) << code;
    EXPECT_EQ(d[1], -0x1p-29) << code << ": with .rn the product is rounded";
  }
}

TEST_F(CodeTest, AnAddressOutsideOfDeviceMemoryIsSeenInAnyLoop) {
  const uint64_t end = TestMemory::Get().end(), begin = TestMemory::Get().begin();
  for (const char* code : {"quick", "full"}) {
    Kernel* kernel = Made(kStore, code);
    EXPECT_TRUE(Run(kernel, {1}, {256}, end - 1024).ok()) << code;
    EXPECT_EQ(*reinterpret_cast<uint32_t*>(end - 4), 255u) << code;
    EXPECT_EQ(Run(kernel, {1}, {256}, end - 1020).status, ExecStatus::kIllegalAddress) << code;
    EXPECT_EQ(Run(kernel, {1}, {256}, begin - 4).status, ExecStatus::kIllegalAddress) << code;
    EXPECT_EQ(Run(kernel, {1}, {256}, uint64_t{0} - 512).status, ExecStatus::kIllegalAddress)
        << code;
    EXPECT_EQ(Run(kernel, {1}, {256}, begin + 2).status, ExecStatus::kMisaligned) << code;
  }
}

TEST_F(CodeTest, AKernelThatRunsLongIsOptimisedWhileItRuns) {
  Kernel* kernel = Made(kCount, "");
  constexpr uint32_t kBlocks = 400, kRounds = 200000;
  DeviceArray<uint32_t> d(kBlocks);
  ASSERT_TRUE(Run(kernel, {1}, {1}, d.address(), 1u).ok());
  EXPECT_EQ(Codes(), 1u);
  ASSERT_TRUE(Run(kernel, {kBlocks}, {1}, d.address(), kRounds).ok());
  EXPECT_EQ(Codes(), 2u);
  for (uint32_t i = 0; i < kBlocks; ++i) EXPECT_EQ(d[i], kRounds) << i;
}

TEST_F(CodeTest, OptimisedCodeIsFoundInTheCacheFirst) {
  DeviceArray<uint32_t> d(1);
  ASSERT_TRUE(Run(Made(kCount, "full"), {1}, {1}, d.address(), 7u).ok());
  ASSERT_TRUE(Run(Made(kCount, ""), {1}, {1}, d.address(), 7u).ok());
  EXPECT_EQ(Codes(), 1u);
  ASSERT_TRUE(Run(Made(kCount, "quick"), {1}, {1}, d.address(), 7u).ok());
  EXPECT_EQ(Codes(), 2u);
}

}  // namespace
}  // namespace farcall::cpu_device
