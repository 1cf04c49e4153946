// SPDX-License-Identifier: Apache-2.0
// Kernels that count on a warp in lockstep without saying so: which are told, and what they
// compute.
#include "cpu-device/jit/exchange/warp_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "program_fixture.h"

namespace farcall::cpu_device {
namespace {

std::string KernelOf(const std::string& body) {
  return R"(
.version 8.6
.target sm_75
.address_size 64
.visible .entry k(.param .u64 array, .param .u64 other, .param .u32 n)
{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %rd<32>;
  .shared .align 8 .b8 words[1024];
  ld.param.u64 %rd1, [array];
  ld.param.u64 %rd2, [other];
  ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
)" + body +
         "\nret;\n}\n";
}

bool Exchanges(const std::string& body) {
  ptx::Module module;
  const std::string text = KernelOf(body);
  EXPECT_TRUE(ptx::Parse(text, &module).ok());
  EXPECT_TRUE(module.EnsureAll().ok());
  return jit::WarpExchange(*module.functions.at(0)).any();
}

const std::string kToTheNeighbour =
    "st.global.u32 [%rd4], %r1;\nBETWEEN\n"
    "add.s32 %r2, %r1, -1;\nmul.wide.s32 %rd5, %r2, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
    "ld.global.u32 %r3, [%rd6];\nst.global.u32 [%rd4+4096], %r3;";

std::string Between(std::string text, const std::string& what) {
  return text.replace(text.find("BETWEEN"), 7, what);
}

TEST(WarpExchange, AValueFromTheNeighbourIsOne) {
  EXPECT_TRUE(Exchanges(Between(kToTheNeighbour, "")));
}

TEST(WarpExchange, AThreadsNumberInItsBlockIsAPlaceToo) {
  EXPECT_TRUE(Exchanges(
      "mov.u32 %r5, %tid.y;\nmov.u32 %r6, %ntid.x;\nmad.lo.s32 %r7, %r5, %r6, %r1;\n"
      "mul.wide.u32 %rd5, %r7, 4;\nadd.s64 %rd6, %rd1, %rd5;\nst.global.u32 [%rd6], %r1;\n"
      "ld.global.u32 %r3, [%rd6+-4];\nst.global.u32 [%rd6+4096], %r3;"));
}

TEST(WarpExchange, ABarrierBetweenMakesItNone) {
  EXPECT_FALSE(Exchanges(Between(kToTheNeighbour, "bar.sync 0;")));
  EXPECT_FALSE(Exchanges(Between(kToTheNeighbour, "bar.warp.sync -1;")));
}

TEST(WarpExchange, ABarrierOnOnePathAloneDoesNot) {
  EXPECT_TRUE(Exchanges(
      Between(kToTheNeighbour, "setp.eq.u32 %p1, %r9, 0;\n@%p1 bra OVER;\nbar.sync 0;\nOVER:")));
}

TEST(WarpExchange, AnotherArrayIsNone) {
  EXPECT_FALSE(
      Exchanges("st.global.u32 [%rd4], %r1;\nadd.s64 %rd6, %rd2, %rd3;\n"
                "ld.global.u32 %r3, [%rd6+-4];\nst.global.u32 [%rd4], %r3;"));
}

TEST(WarpExchange, WhatIsReadBeforeItIsWrittenIsNone) {
  EXPECT_FALSE(
      Exchanges("ld.global.u32 %r2, [%rd4];\nld.global.u32 %r3, [%rd4+32];\n"
                "add.s32 %r2, %r2, %r3;\nst.global.u32 [%rd4], %r2;"));
}

TEST(WarpExchange, AThreadsOwnRecordIsNone) {
  EXPECT_FALSE(
      Exchanges("mul.wide.u32 %rd5, %r1, 12;\nadd.s64 %rd6, %rd1, %rd5;\n"
                "st.global.u32 [%rd6], %r1;\nst.global.u32 [%rd6+8], %r1;\n"
                "ld.global.u32 %r3, [%rd6+4];\nst.global.u32 [%rd4], %r3;"));
}

TEST(WarpExchange, ALoopByTheBlockInPlaceIsNone) {
  EXPECT_FALSE(
      Exchanges("mov.u32 %r2, %r1;\nmov.u32 %r5, %ntid.x;\nNEXT:\n"
                "mul.wide.u32 %rd5, %r2, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
                "ld.global.u32 %r3, [%rd6];\nadd.s32 %r3, %r3, 1;\nst.global.u32 [%rd6], %r3;\n"
                "add.s32 %r2, %r2, %r5;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra NEXT;"));
}

// Registers that compilers use anew, as in what is left of an unrolled loop, close no circle.
TEST(WarpExchange, ARestOfAnUnrolledLoopIsNone) {
  EXPECT_FALSE(
      Exchanges("mov.u32 %r2, %r1;\nsub.s32 %r4, %r9, %r2;\nshr.u32 %r5, %r4, 8;\n"
                "add.s32 %r6, %r5, 1;\nshl.b32 %r7, %r6, 8;\nand.b32 %r7, %r7, 768;\n"
                "add.s32 %r2, %r2, %r7;\nNEXT:\nmul.wide.u32 %rd5, %r2, 4;\n"
                "add.s64 %rd6, %rd1, %rd5;\nld.global.u32 %r3, [%rd6];\nadd.s32 %r3, %r3, 1;\n"
                "st.global.u32 [%rd6], %r3;\nadd.s32 %r2, %r2, 1024;\n"
                "setp.lt.u32 %p1, %r2, %r9;\n@%p1 bra NEXT;"));
}

// for (w = 16; w; w /= 2) x[tid] += x[tid + w]
const std::string kTree =
    "mov.u32 %r2, words;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nmov.u32 %r5, 16;\n"
    "AGAIN:\nshl.b32 %r6, %r5, 2;\nadd.s32 %r7, %r4, %r6;\nld.shared.u32 %r8, [%r7];\n"
    "ld.shared.u32 %r10, [%r4];\nadd.s32 %r8, %r8, %r10;\nst.shared.u32 [%r4], %r8;\nBETWEEN\n"
    "shr.u32 %r11, %r5, 1;\nmov.u32 %r5, %r11;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra AGAIN;";

TEST(WarpExchange, ASumByTreeIsOneWithoutBarriers) {
  EXPECT_TRUE(Exchanges(Between(kTree, "")));
  EXPECT_FALSE(Exchanges(Between(kTree, "bar.sync 0;")));
}

// p = x[row + column] by all, then x[row + t] = p * t.
const std::string kRow =
    "mov.u32 %r2, words;\nmov.u32 %r4, %ctaid.x;\nmul.lo.s32 %r5, %r4, %r9;\n"
    "shl.b32 %r6, %r5, 2;\nadd.s32 %r7, %r2, %r6;\nmov.u32 %r8, %ctaid.y;\nshl.b32 %r10, %r8, 2;\n"
    "add.s32 %r11, %r7, %r10;\nld.shared.u32 %r12, [%r11];\nmul.lo.s32 %r13, %r12, %r1;\nBETWEEN\n"
    "shl.b32 %r14, %r1, 2;\nadd.s32 %r15, %r7, %r14;\nst.shared.u32 [%r15], %r13;";

TEST(WarpExchange, ARowWrittenOverWhatAllReadIsOne) {
  EXPECT_TRUE(Exchanges(Between(kRow, "")));
  EXPECT_FALSE(Exchanges(Between(kRow, "bar.sync 0;")));
}

// x[t] = t by each thread, then thread 0 alone loads BETWEEN.
const std::string kByOne =
    "mov.u32 %r2, words;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\n"
    "st.shared.u32 [%r4], %r1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra OVER;\nBETWEEN\nOVER:";

TEST(WarpExchange, WhatOneThreadGathersIsOne) {
  EXPECT_TRUE(Exchanges(Between(kByOne, "ld.shared.u32 %r5, [words+124];")));
  EXPECT_TRUE(Exchanges(Between(kByOne,
                                "mov.u32 %r6, words;\nNEXT:\nld.shared.u32 %r5, [%r6];\n"
                                "add.s32 %r6, %r6, 4;\nsetp.ne.s32 %p2, %r6, %r9;\n"
                                "@%p2 bra NEXT;")));
}

// Its own, as at the end of a sum by tree; that of another warp, which takes a barrier; an array
// behind the first, as far as the launch says.
TEST(WarpExchange, WhatOneThreadReadsElsewhereIsNone) {
  EXPECT_FALSE(Exchanges(Between(kByOne, "ld.shared.u32 %r5, [words];")));
  EXPECT_FALSE(Exchanges(Between(kByOne, "ld.shared.u32 %r5, [words+128];")));
  EXPECT_FALSE(Exchanges(Between(
      kByOne, "shl.b32 %r6, %r9, 2;\nadd.s32 %r6, %r6, %r2;\nld.shared.u32 %r5, [%r6+4];")));
}

// Again and again x[t] = k by each thread, then sum += x[t / 8].
const std::string kTile =
    "mov.u32 %r2, words;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nshr.u32 %r10, %r1, 3;\n"
    "shl.b32 %r11, %r10, 2;\nadd.s32 %r5, %r2, %r11;\nmov.u32 %r6, 0;\nmov.u32 %r7, %r1;\n"
    "AGAIN:\nst.shared.u32 [%r4], %r7;\nBETWEEN\nld.shared.u32 %r8, [%r5];\n"
    "add.s32 %r7, %r7, %r8;\nBEHIND\nadd.s32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, %r9;\n"
    "@%p1 bra AGAIN;\nst.global.u32 [%rd4], %r7;";

std::string TileOf(const char* between, const char* behind) {
  std::string text = Between(kTile, between);
  return text.replace(text.find("BEHIND"), 6, behind);
}

TEST(WarpExchange, ATileOfTheWarpIsOneWithoutBarriers) {
  EXPECT_TRUE(Exchanges(TileOf("", "")));
  EXPECT_FALSE(Exchanges(TileOf("bar.sync 0;", "bar.sync 0;")));
  // Of two tiles, one is filled while the other is read.
  EXPECT_FALSE(Exchanges(TileOf("", "bar.sync 0;")));
}

TEST(WarpExchange, VolatileSharedMemoryIsOne) {
  std::string text = Between(kTree, "");
  for (size_t at; (at = text.find("d.shared")) != std::string::npos;)
    text.replace(at, 8, "d.volatile.shared");
  for (size_t at; (at = text.find("t.shared")) != std::string::npos;)
    text.replace(at, 8, "t.volatile.shared");
  EXPECT_TRUE(Exchanges(text));
}

class WarpExchangeTest : public ProgramTest {};

// Rows of a table, each the one before moved on by a place, and its first number in the first place
// of a warp: thread by thread, each would find the row before half done.
TEST_F(WarpExchangeTest, RowsMadeOfTheRowBefore) {
  Kernel* kernel = Find(Load(KernelOf(R"(
  st.global.u32 [%rd4], %r1;
  and.b32 %r2, %r1, 31;
  mov.u32 %r4, 0;
AGAIN:
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra FIRST;
  ld.global.u32 %r3, [%rd4+-4];
  bra DONE;
FIRST:
  ld.global.u32 %r3, [%rd4+4];
DONE:
  add.s64 %rd4, %rd4, 512;
  st.global.u32 [%rd4], %r3;
  add.s32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, %r9;
  @%p2 bra AGAIN;
)")),
                        "k");
  ASSERT_NE(kernel, nullptr);
  constexpr uint32_t kThreads = 128, kRows = 40;
  DeviceArray<uint32_t> table(kThreads * (kRows + 1));
  EXPECT_RUNS(Run(kernel, {1}, {kThreads}, table.address(), uint64_t{0}, kRows));
  std::vector<uint32_t> row(kThreads), next(kThreads);
  std::iota(row.begin(), row.end(), 0);
  for (uint32_t r = 0; r <= kRows; ++r) {
    for (uint32_t i = 0; i < kThreads; ++i) {
      ASSERT_EQ(table[r * kThreads + i], row[i]) << r << " " << i;
      next[i] = i % 32 == 0 ? row[i + 1] : row[i - 1];
    }
    row = next;
  }
}

// Rows of a matrix, each divided by one of its elements that all threads read and one overwrites.
TEST_F(WarpExchangeTest, ARowDividedByAnElementOfItself) {
  Kernel* kernel = Find(Load(KernelOf(R"(
  and.b32 %r2, %r1, 31;
  mov.u32 %r3, 0;
AGAIN:
  mul.lo.s32 %r4, %r3, %r9;
  add.s32 %r5, %r4, %r3;
  mul.wide.u32 %rd5, %r5, 4;
  add.s64 %rd6, %rd1, %rd5;
  ld.global.u32 %r6, [%rd6];
  add.s32 %r7, %r4, %r1;
  mul.wide.u32 %rd7, %r7, 4;
  add.s64 %rd8, %rd1, %rd7;
  ld.global.u32 %r8, [%rd8];
  div.u32 %r10, %r8, %r6;
  st.global.u32 [%rd8], %r10;
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r9;
  @%p1 bra AGAIN;
)")),
                        "k");
  ASSERT_NE(kernel, nullptr);
  constexpr uint32_t kSize = 32;
  std::vector<uint32_t> matrix(kSize * kSize);
  for (uint32_t i = 0; i < matrix.size(); ++i) matrix[i] = 1000 + 977 * i % 5000;
  DeviceArray<uint32_t> got(matrix);
  EXPECT_RUNS(Run(kernel, {1}, {kSize}, got.address(), uint64_t{0}, kSize));
  for (uint32_t i = 0; i < matrix.size(); ++i) {
    const uint32_t row = i / kSize;
    ASSERT_EQ(got[i], matrix[i] / matrix[row * kSize + row]) << i;
  }
}

// The last thread stores behind a condition, the others go straight to the load: in the order of
// the text the store comes first.
TEST_F(WarpExchangeTest, AVolatileStoreBehindACondition) {
  Kernel* kernel = Find(Load(KernelOf(R"(
  mov.u32 %r2, words;
  mov.u32 %r5, 0;
AGAIN:
  setp.ne.u32 %p1, %r1, 31;
  @%p1 bra OTHERS;
  add.s32 %r6, %r5, 100;
  st.volatile.shared.u32 [%r2], %r6;
  bra.uni BOTH;
OTHERS:
  setp.lt.u32 %p2, %r1, 4;
  @%p2 bra OVER;
BOTH:
  ld.volatile.shared.u32 %r3, [%r2];
  st.global.u32 [%rd4], %r3;
OVER:
  add.s64 %rd4, %rd4, 128;
  add.s32 %r5, %r5, 1;
  setp.lt.u32 %p3, %r5, %r9;
  @%p3 bra AGAIN;
  bar.sync 0;
)")),
                        "k");
  ASSERT_NE(kernel, nullptr);
  constexpr uint32_t kTimes = 5;
  DeviceArray<uint32_t> out(32 * kTimes);
  EXPECT_RUNS(Run(kernel, {1}, {32}, out.address(), uint64_t{0}, kTimes));
  for (uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i % 32 < 4 ? 0 : 100 + i / 32) << i;
}

TEST_F(WarpExchangeTest, ATileThatOthersRead) {
  constexpr uint32_t kThreads = 32, kRounds = 5;
  DeviceArray<uint32_t> out(kThreads);
  EXPECT_RUNS(Run(Find(Load(KernelOf(TileOf("", ""))), "k"), {1}, {kThreads}, out.address(),
                  uint64_t{0}, kRounds));
  std::vector<uint32_t> value(kThreads);
  std::iota(value.begin(), value.end(), 0u);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const std::vector<uint32_t> before = value;
    for (uint32_t i = 0; i < kThreads; ++i) value[i] += before[i / 8];
  }
  EXPECT_EQ(std::vector<uint32_t>(out.data(), out.data() + kThreads), value);
}

// Each thread takes what one of its warp, named by a list, has just stored.
class LockstepTest : public ProgramTest {
 protected:
  static constexpr uint32_t kThreads = 64;

  std::vector<uint32_t> RunBackwards(bool lockstep) {
    ExecutorOptions options = TestOptions();
    options.lockstep = lockstep;
    ConfigureExecutor(options);
    DeviceArray<uint32_t> array(kThreads), from(kThreads);
    for (uint32_t i = 0; i < kThreads; ++i) from[i] = i ^ 31;
    EXPECT_RUNS(Run(Find(Load(KernelOf(kByList)), "k"), {1}, {kThreads}, array.address(),
                    from.address(), uint32_t{0}));
    return {array.data(), array.data() + kThreads};
  }

  const std::string kByList = R"(
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd5];
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd1, %rd6;
  add.u32 %r3, %r1, 1000;
  st.global.u32 [%rd4], %r3;
  ld.global.u32 %r4, [%rd7];
  st.global.u32 [%rd4], %r4;
)";
};

TEST_F(LockstepTest, ReadsWhatAllOfTheWarpStored) {
  const std::vector<uint32_t> got = RunBackwards(true);
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(got[i], 1000 + (i ^ 31)) << i;
}

// What the setting is for: nothing in this kernel's text says that its threads exchange values.
TEST_F(LockstepTest, IsNotToldFromAList) {
  EXPECT_FALSE(Exchanges(kByList));
  EXPECT_EQ(RunBackwards(false)[0], 0u);
}

// A bitonic sort of each warp's n numbers in place, without a barrier; n is no multiple of 32, so
// threads leave the inner loop apart.
TEST_F(WarpExchangeTest, ASortInPlace) {
  Kernel* kernel = Find(Load(KernelOf(R"(
  and.b32 %r2, %r1, 31;
  shr.u32 %r3, %r1, 5;
  mul.lo.s32 %r4, %r3, %r9;
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd1, %rd5;
  shr.u32 %r5, %r9, 1;
  mov.u32 %r6, 2;
LENGTHS:
  mov.u32 %r7, %r6;
WIDTHS:
  shr.u32 %r7, %r7, 1;
  mov.u32 %r8, %r2;
  setp.ge.u32 %p1, %r8, %r5;
  @%p1 bra PAIRS_DONE;
PAIRS:
  neg.s32 %r10, %r7;
  and.b32 %r11, %r8, %r10;
  add.s32 %r12, %r8, %r11;
  mul.wide.u32 %rd7, %r12, 4;
  add.s64 %rd8, %rd6, %rd7;
  mul.wide.u32 %rd9, %r7, 4;
  add.s64 %rd10, %rd8, %rd9;
  ld.global.u32 %r13, [%rd8];
  ld.global.u32 %r14, [%rd10];
  and.b32 %r15, %r12, %r6;
  setp.ne.u32 %p2, %r15, 0;
  setp.gt.u32 %p3, %r13, %r14;
  xor.pred %p4, %p2, %p3;
  @!%p4 bra KEPT;
  st.global.u32 [%rd8], %r14;
  st.global.u32 [%rd10], %r13;
KEPT:
  add.s32 %r8, %r8, 32;
  setp.lt.u32 %p1, %r8, %r5;
  @%p1 bra PAIRS;
PAIRS_DONE:
  setp.gt.u32 %p1, %r7, 1;
  @%p1 bra WIDTHS;
  shl.b32 %r6, %r6, 1;
  setp.le.u32 %p1, %r6, %r9;
  @%p1 bra LENGTHS;
)")),
                        "k");
  ASSERT_NE(kernel, nullptr);
  for (const uint32_t count : {16u, 32u, 256u, 1024u}) {
    constexpr uint32_t kWarps = 3;
    std::vector<uint32_t> numbers(kWarps * count);
    std::mt19937 random(7);
    for (uint32_t& number : numbers) number = random();
    DeviceArray<uint32_t> array(numbers);
    EXPECT_RUNS(Run(kernel, {1}, {32 * kWarps}, array.address(), uint64_t{0}, count));
    for (uint32_t w = 0; w < kWarps; ++w)
      std::sort(numbers.begin() + w * count, numbers.begin() + (w + 1) * count);
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), array.data())) << count;
  }
}

}  // namespace
}  // namespace farcall::cpu_device
