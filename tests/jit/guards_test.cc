// SPDX-License-Identifier: Apache-2.0
// Loops over threads of which some have nothing to do, and memory that is not in the window.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "cpu-device/exec/executor.h"
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr char kHead[] = ".version 7.5\n.target sm_75\n.address_size 64\n";

// d[i] = s[i] + 1 below n
constexpr char kAddOne[] = R"(
.visible .entry k(.param .u64 d, .param .u64 s, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [d];
  ld.param.u64 %rd2, [s];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  add.s32 %r6, %r6, 1;
  add.s64 %rd5, %rd1, %rd3;
  st.global.u32 [%rd5], %r6;
DONE:
  ret;
}
)";

// d[tid] = 1 where COMPARE of base + tid and n holds, and tid.y < rows.
constexpr char kCompared[] = R"(
.visible .entry k(.param .u64 d, .param .BITS base, .param .BITS n, .param .u32 rows)
{
  .reg .pred %p<4>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<4>;
  .reg .BITS %x<5>;
  ld.param.u64 %rd1, [d];
  ld.param.BITS %x1, [base];
  ld.param.BITS %x2, [n];
  ld.param.u32 %r1, [rows];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %tid.y;
  cvt.BITS.u32 %x3, %r2;
  add.BITS %x4, %x1, %x3;
  setp.COMPARE %p1, %x4, %x2;
  setp.lt.u32 %p2, %r3, %r1;
  and.pred %p3, %p1, %p2;
  @!%p3 bra DONE;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r6, 1;
  st.global.u32 [%rd3], %r6;
DONE:
  ret;
}
)";

// d[block]++
constexpr char kCountBlocks[] = R"(
.visible .entry k(.param .u64 d)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [d];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ctaid.y;
  mov.u32 %r3, %ctaid.z;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r5, %nctaid.y;
  mad.lo.s32 %r6, %r3, %r5, %r2;
  mad.lo.s32 %r7, %r6, %r4, %r1;
  mul.wide.u32 %rd2, %r7, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r8, [%rd3];
  add.s32 %r8, %r8, 1;
  st.global.u32 [%rd3], %r8;
  ret;
}
)";

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Memory that only the driver knows of, and how often it is asked.
class Elsewhere {
 public:
  static constexpr size_t kWords = 1 << 16;
  static Elsewhere& Get() {
    static auto* elsewhere = new Elsewhere;
    return *elsewhere;
  }
  // `words` words of value 7, of which nothing beyond belongs to them.
  uint32_t* Lend(size_t words) {
    std::fill(memory_, memory_ + kWords, 7u);
    lent_ = words * 4;
    asked_of_address = asked_of_range = 0;
    ++version;
    return memory_;
  }
  static bool IsAddress(uint64_t address) {
    ++Get().asked_of_address;
    return address - reinterpret_cast<uint64_t>(Get().memory_) < Get().lent_;
  }
  static bool FindRange(uint64_t address, uint64_t bytes, KnownRange* found) {
    ++Get().asked_of_range;
    const uint64_t begin = reinterpret_cast<uint64_t>(Get().memory_), offset = address - begin;
    *found = {begin, Get().lent_, Get().version};
    return offset < Get().lent_ && bytes <= Get().lent_ - offset;
  }
  std::atomic<unsigned> asked_of_address{0}, asked_of_range{0};
  std::atomic<uint64_t> version{0};

 private:
  Elsewhere()
      : memory_(static_cast<uint32_t*>(mmap(nullptr, kWords * 4, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  uint32_t* memory_;
  uint64_t lent_ = 0;
};

class GuardsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (const char* choice = getenv("FARCALL_CPU_CODE")) choice_ = choice;
    ExecutorOptions options = TestOptions();
    options.is_device_address = &Elsewhere::IsAddress;
    options.find_range = &Elsewhere::FindRange;
    options.range_version = &Elsewhere::Get().version;
    ConfigureExecutor(options);
  }
  void TearDown() override {
    ConfigureExecutor(TestOptions());
    setenv("FARCALL_CPU_CODE", choice_.c_str(), 1);
  }
  Kernel* Made(const std::string& text, const char* code) {
    setenv("FARCALL_CPU_CODE", code, 1);
    Kernel* kernel = Find(Load(kHead + text), "k");
    EXPECT_TRUE(kernel->Prepare().ok());
    return kernel;
  }
  std::string choice_;
};

TEST_F(GuardsTest, OfMemoryElsewhereTheDriverIsAskedOnceAThreadOfTheHost) {
  constexpr uint32_t kBlocks = 16, kThreads = 256;
  // A last block that is whole, one that is not, and one that has nothing to do.
  for (uint32_t n : {kBlocks * kThreads, kBlocks * kThreads - 100, (kBlocks - 1) * kThreads}) {
    uint32_t* words = Elsewhere::Get().Lend(n);
    const auto address = reinterpret_cast<uint64_t>(words);
    EXPECT_RUNS(Run(Made(kAddOne, "full"), {kBlocks}, {kThreads}, address, address, n));
    EXPECT_EQ(Elsewhere::Get().asked_of_address, 0u) << n;
    EXPECT_GE(Elsewhere::Get().asked_of_range, 1u) << n;
    EXPECT_LE(Elsewhere::Get().asked_of_range, TestOptions().pool_threads) << n;
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(words[i], 8u) << i;
    EXPECT_EQ(words[n], 7u);
  }
}

TEST_F(GuardsTest, WhatLiesBeyondMemoryElsewhereIsAFaultAtItsFirstAddress) {
  for (const char* code : {"quick", "full"}) {
    uint32_t* words = Elsewhere::Get().Lend(1000);
    const auto address = reinterpret_cast<uint64_t>(words);
    const ExecResult result = Run(Made(kAddOne, code), {4}, {256}, address, address, 1001u);
    EXPECT_EQ(result.status, ExecStatus::kIllegalAddress) << code;
    char at[32];
    snprintf(at, sizeof(at), "0x%llx", static_cast<unsigned long long>(address + 4000));
    EXPECT_NE(result.message.find(at), std::string::npos) << result.message;
    EXPECT_NE(result.message.find("kernel k"), std::string::npos) << result.message;
    EXPECT_EQ(words[1000], 7u);
    EXPECT_EQ(Run(Made(kAddOne, code), {4}, {250}, address + 2, address, 900u).status,
              ExecStatus::kMisaligned);
  }
}

TEST_F(GuardsTest, AConditionHoldsForTheSameThreadsHoweverItIsCompiled) {
  constexpr uint32_t kThreads = 100, kRows = 3;
  struct Type {
    const char* bits;
    bool is_signed, wide;
  };
  for (const Type& type : {Type{"u32", false, false}, Type{"s32", true, false},
                           Type{"u64", false, true}, Type{"s64", true, true}}) {
    for (const char* compare : {"lt", "le", "gt", "ge"}) {
      std::string text = Replaced(kCompared, "COMPARE", std::string(compare) + "." + type.bits);
      text = Replaced(text, "BITS", type.bits);
      Kernel *quick = Made(text, "quick"), *full = Made(text, "full");
      const uint64_t most = type.wide ? std::numeric_limits<uint64_t>::max() : 0xffffffffu;
      const uint64_t top = most / 2;  // the largest of a signed number
      for (uint64_t base : {uint64_t{0}, uint64_t{7}, top - 50, top - 99, most - 50, most - 98}) {
        for (uint64_t n : {uint64_t{0}, uint64_t{50}, base, base + 37, base + 99, base + 100, top,
                           most, most - 20}) {
          for (uint32_t rows : {0u, 2u, kRows}) {
            DeviceArray<uint32_t> expected(kThreads * kRows), got(kThreads * kRows);
            auto run = [&](Kernel* kernel, DeviceArray<uint32_t>& d) {
              return type.wide ? Run(kernel, {1}, {kThreads, kRows}, d.address(), base & most,
                                     n & most, rows)
                               : Run(kernel, {1}, {kThreads, kRows}, d.address(),
                                     static_cast<uint32_t>(base), static_cast<uint32_t>(n), rows);
            };
            ASSERT_TRUE(run(quick, expected).ok() && run(full, got).ok());
            ASSERT_EQ(memcmp(expected.data(), got.data(), kThreads * kRows * 4), 0)
                << compare << "." << type.bits << " base " << base << " n " << n << " rows "
                << rows;
          }
        }
      }
    }
  }
}

TEST_F(GuardsTest, ManyBlocksAreTakenAtOnceAndEachRunsOnce) {
  Kernel* kernel = Made(kCountBlocks, "full");
  for (const Dim3& grid : {Dim3{1 << 16}, Dim3{37, 41, 43}}) {
    const uint32_t blocks = grid.x * grid.y * grid.z;
    DeviceArray<uint32_t> d(blocks);
    const uint64_t before = RunsTaken();
    ASSERT_TRUE(Run(kernel, grid, {1}, d.address()).ok());
    // One by one until there are helpers, and the last ones; 64 at once between.
    EXPECT_LT(RunsTaken() - before, blocks / 16);
    for (uint32_t i = 0; i < blocks; ++i) ASSERT_EQ(d[i], 1u) << i;
  }
}

}  // namespace
}  // namespace farcall::cpu_device
