// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads meet where all of them come together are loops over threads; what meets
// elsewhere stays a coroutine of each thread. Both compute the same.
#include <algorithm>

#include "tests/jit/form_of.h"
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr char kHead[] = ".version 7.8\n.target sm_80\n.address_size 64\n";
constexpr char kBegin[] = R"(
.visible .entry k(.param .u64 d, .param .u32 n)
{
  .reg .pred %p<8>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 s[4096];
  ld.param.u64 %rd1, [d];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r16, %tid.y;
  mad.lo.u32 %r2, %r16, %r3, %r2;
  mov.u32 %r17, %ntid.y;
  mul.lo.u32 %r3, %r3, %r17;
  mov.u32 %r4, s;
  shl.b32 %r5, %r2, 2;
  add.u32 %r5, %r4, %r5;
  add.u32 %r6, %r2, 1;
  rem.u32 %r6, %r6, %r3;
  shl.b32 %r6, %r6, 2;
  add.u32 %r6, %r4, %r6;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r7, %r2;
  mov.u32 %r8, 0;
  mov.u32 %r9, %r2;
  mov.u32 %r11, 0;
  mov.u32 %r12, 0;
  mov.u32 %r13, 0;
)";
constexpr char kEnd[] = "  st.global.u32 [%rd2], %r7;\n  ret;\n}\n";

// Round by round each thread takes its neighbour's value, and adds a counter that goes on by three.
constexpr char kUniform[] = R"(
again:
  st.shared.u32 [%r5], %r7;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  bar.sync 0;
  add.u32 %r7, %r10, %r9;
  add.u32 %r9, %r9, 3;
  setp.gt.u32 %p1, %r10, 10;
  @%p1 bra skip;
  add.u32 %r7, %r7, 5;
skip:
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r1;
  @%p2 bra again;
)";

// A piece of which nothing is left but what all threads have in common: the counter of rounds.
constexpr char kCounted[] = R"(
again:
  st.shared.u32 [%r5], %r7;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  add.u32 %r7, %r10, %r2;
  add.u32 %r11, %r11, %r10;
  setp.gt.u32 %p3, %r10, %r12;
  selp.u32 %r12, %r10, %r12, %p3;
  selp.u32 %r13, %r8, %r13, %p3;
  bar.sync 0;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r1;
  @%p2 bra again;
  add.u32 %r7, %r11, %r8;
  mad.lo.u32 %r7, %r12, 1000, %r7;
  mad.lo.u32 %r7, %r13, 1000000, %r7;
)";

// Between two meetings only some threads compute what all of those have in common.
constexpr char kSome[] = R"(
  setp.ge.u32 %p4, %r2, 16;
  st.shared.u32 [%r5], %r7;
  bar.sync 0;
  @!%p4 bra none;
  div.u32 %r14, 100000, %r1;
none:
  bar.sync 0;
  @!%p4 bra done;
  ld.shared.u32 %r10, [%r6];
  add.u32 %r7, %r10, %r14;
done:
)";

// The same, but threads leave the loop one after the other.
constexpr char kDivergent[] = R"(
again:
  bar.sync 0;
  add.u32 %r7, %r7, 5;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r2;
  @%p2 bra again;
)";

// Each thread adds its right neighbour's value of the warp, how many threads have an odd one, and
// the warp's votes for an even one.
constexpr char kWarps[] = R"(
again:
  shfl.sync.down.b32 %r10|%p1, %r7, 1, 31, -1;
  and.b32 %r11, %r7, 1;
  setp.ne.u32 %p3, %r11, 0;
  bar.red.popc.u32 %r12, 0, %p3;
  vote.sync.ballot.b32 %r13, !%p3, -1;
  bar.warp.sync -1;
  add.u32 %r7, %r7, %r10;
  add.u32 %r7, %r7, %r12;
  add.u32 %r7, %r7, %r13;
  @%p1 add.u32 %r7, %r7, 1;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r1;
  @%p2 bra again;
)";

// Only some threads are left: they meet, and exchange; those that are not there give 0.
constexpr char kLeaving[] = R"(
  st.shared.u32 [%r5], %r7;
  setp.ge.u32 %p4, %r2, %r1;
  @%p4 bra out;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  setp.ne.u32 %p5, %r7, 2;
  @%p5 bra stay;
  mov.u32 %r7, 7777;
  st.global.u32 [%rd2], %r7;
  ret;
stay:
  setp.gt.u32 %p3, %r10, 3;
  bar.red.popc.u32 %r11, 0, %p3;
  activemask.b32 %r12;
  shfl.sync.down.b32 %r13|%p1, %r7, 1, 31, %r12;
  add.u32 %r7, %r10, %r11;
  mad.lo.u32 %r7, %r13, 1000, %r7;
  popc.b32 %r12, %r12;
  mad.lo.u32 %r7, %r12, 1000000, %r7;
  st.global.u32 [%rd2], %r7;
out:
  ret;
)";

// Threads leave a loop that meets, each after as many rounds as its number says, and with its end.
constexpr char kLeavingLoop[] = R"(
again:
  st.shared.u32 [%r5], %r8;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  add.u32 %r11, %r11, %r10;
  bar.sync 0;
  setp.ge.u32 %p1, %r8, %r2;
  @%p1 bra leave;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r1;
  @%p2 bra again;
  add.u32 %r7, %r11, 100000;
  bra done;
leave:
  st.global.u32 [%rd2], %r11;
  ret;
done:
)";

// Each thread adds every so-many-th item of the array behind the results, up to an end of its own.
constexpr char kStrided[] = R"(
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u32 %r15, %r2, %r1;
  min.u32 %r14, %r1, %r15;
  setp.ge.u32 %p1, %r2, %r14;
  mov.u32 %r13, 5;
  @%p1 bra past;
  cvta.to.global.u64 %rd5, %rd4;
  mov.u32 %r13, 6;
loop:
  mul.wide.u32 %rd7, %r9, 4;
  add.u64 %rd7, %rd5, %rd7;
  ld.global.u32 %r10, [%rd7];
  and.b32 %r12, %r10, 1;
  setp.eq.u32 %p3, %r12, 0;
  @%p3 bra even;
  add.u32 %r11, %r11, %r10;
even:
  add.u32 %r8, %r8, 1;
  add.u32 %r9, %r9, %r3;
  setp.lt.u32 %p2, %r9, %r14;
  @%p2 bra loop;
past:
  st.shared.u32 [%r5], %r11;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  add.u32 %r7, %r10, %r8;
  mad.lo.u32 %r7, %r9, 1000, %r7;
  mad.lo.u32 %r7, %r13, 1000000, %r7;
)";

// Loops over neighbours' items that do not advance, in step.
constexpr char kEndless[] = R"(
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra past;
loop:
  mul.wide.u32 %rd3, %r9, 4;
  add.u64 %rd3, %rd1, %rd3;
  ld.global.u32 %r10, [%rd3];
  add.u32 %r11, %r11, %r10;
  add.u32 %r9, %r9, %r8;
  setp.lt.u32 %p2, %r9, %r1;
  @%p2 bra loop;
past:
  bar.sync 0;
  mov.u32 %r7, %r11;
)";

// What all threads get of a barrier is wanted behind the next, for itself and in what is made of
// it.
constexpr char kCountOnce[] = R"(
  setp.lt.u32 %p3, %r2, %r1;
  bar.red.popc.u32 %r11, 0, %p3;
  add.u32 %r12, %r11, %r2;
  bar.sync 0;
  mad.lo.u32 %r7, %r12, 1000, %r11;
)";

// In each turn all threads still there have the same sum; they leave at turns of their own, and
// meet behind the loop. n is 100: no thread stays as long.
constexpr char kLeftApart[] = R"(
  bar.sync 0;
  mov.u32 %r11, %r1;
turn:
  mad.lo.u32 %r11, %r8, 3, %r11;
  setp.lt.u32 %p1, %r8, %r2;
  setp.lt.u32 %p2, %r8, %r1;
  and.pred %p3, %p1, %p2;
  add.u32 %r8, %r8, 1;
  @%p3 bra turn;
  bar.sync 0;
  ld.shared.u32 %r10, [%r6];
  mul.lo.u32 %r10, %r10, 0;
  bar.sync 0;
  add.u32 %r7, %r11, %r10;
)";

class RegionsTest : public ProgramTest {};

std::string Text(const char* body) {
  return std::string(kHead) + kBegin + body + kEnd;
}

// As the rounds go on in C++.
std::vector<uint32_t> Expected(uint32_t threads, uint32_t rounds) {
  std::vector<uint32_t> value(threads);
  for (uint32_t i = 0; i < threads; ++i) value[i] = i;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::vector<uint32_t> before = value;
    for (uint32_t i = 0; i < threads; ++i) {
      const uint32_t neighbour = before[(i + 1) % threads];
      value[i] = neighbour + i + 3 * round + (neighbour > 10 ? 0 : 5);
    }
  }
  return value;
}

std::vector<uint32_t> Exchanged(uint32_t threads, uint32_t rounds) {
  std::vector<uint32_t> value(threads);
  for (uint32_t i = 0; i < threads; ++i) value[i] = i;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::vector<uint32_t> before = value;
    uint32_t odd = 0;
    for (uint32_t v : before) odd += v & 1;
    for (uint32_t i = 0; i < threads; ++i) {
      const uint32_t warp = i / 32 * 32, lane = i % 32;
      uint32_t even = 0;
      for (uint32_t k = warp; k < warp + 32 && k < threads; ++k)
        even |= (~before[k] & 1) << (k % 32);
      const bool in_range = lane < 31;
      // A lane that the block does not have gives 0.
      const uint32_t right = !in_range ? before[i] : i + 1 < threads ? before[i + 1] : 0;
      value[i] += right + odd + even + (in_range ? 1 : 0);
    }
  }
  return value;
}

TEST_F(RegionsTest, AKernelThatMeetsTogetherIsLoops) {
  EXPECT_EQ(FormOf(Text(kUniform)), CodeForm::kRegions);
}

TEST_F(RegionsTest, WarpOperationsOfAllThreadsAreLoopsToo) {
  EXPECT_EQ(FormOf(Text(kWarps)), CodeForm::kRegions);
}

TEST_F(RegionsTest, WarpsExchangeWithinTheBlock) {
  Kernel* kernel = Find(Load(Text(kWarps)), "k");
  for (const uint32_t threads : {1u, 40u, 64u, 96u}) {
    DeviceArray<uint32_t> out(threads);
    EXPECT_RUNS(Run(kernel, {1}, {threads}, out.address(), 3u));
    EXPECT_EQ(std::vector<uint32_t>(out.data(), out.data() + threads), Exchanged(threads, 3));
  }
}

TEST_F(RegionsTest, QuickCodeIsACoroutine) {
  EXPECT_EQ(FormOf(Text(kUniform), true), CodeForm::kCoroutine);
}

TEST_F(RegionsTest, AKernelThatMeetsApartIsACoroutine) {
  EXPECT_EQ(FormOf(Text(kDivergent)), CodeForm::kCoroutine);
}

TEST_F(RegionsTest, WhatThreadsHaveInCommonIsCountedOnce) {
  ASSERT_EQ(FormOf(Text(kCounted)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kCounted)), "k");
  constexpr uint32_t kThreads = 96, kRounds = 5;
  DeviceArray<uint32_t> out(kThreads);
  EXPECT_RUNS(Run(kernel, {1}, {kThreads}, out.address(), kRounds));
  std::vector<uint32_t> value(kThreads), sum(kThreads), most(kThreads), when(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) value[i] = i;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const std::vector<uint32_t> before = value;
    for (uint32_t i = 0; i < kThreads; ++i) {
      const uint32_t neighbour = before[(i + 1) % kThreads];
      sum[i] += neighbour;
      if (neighbour > most[i]) {
        most[i] = neighbour;
        when[i] = round;
      }
      value[i] = neighbour + i;
    }
  }
  for (uint32_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(out[i], sum[i] + kRounds + 1000 * most[i] + 1000000 * when[i]) << i;
}

TEST_F(RegionsTest, WhatSomeThreadsHaveInCommonReachesThem) {
  Kernel* kernel = Find(Load(Text(kSome)), "k");
  constexpr uint32_t kThreads = 64;
  DeviceArray<uint32_t> out(kThreads);
  EXPECT_RUNS(Run(kernel, {1}, {kThreads}, out.address(), 7u));
  for (uint32_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(out[i], i < 16 ? i : (i + 1) % kThreads + 100000 / 7) << i;
}

TEST_F(RegionsTest, WhatThreadsLeaveALoopWithIsTheirOwn) {
  ASSERT_EQ(FormOf(Text(kLeftApart)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kLeftApart)), "k");
  constexpr uint32_t kThreads = 64;
  DeviceArray<uint32_t> out(kThreads);
  EXPECT_RUNS(Run(kernel, {1}, {kThreads}, out.address(), 100u));
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(out[i], 100 + 3 * i * (i + 1) / 2) << i;
}

TEST_F(RegionsTest, WhatAllGetOfABarrierIsWantedLater) {
  ASSERT_EQ(FormOf(Text(kCountOnce)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kCountOnce)), "k");
  constexpr uint32_t kThreads = 64;
  DeviceArray<uint32_t> out(kThreads);
  EXPECT_RUNS(Run(kernel, {1}, {kThreads}, out.address(), 24u));
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(out[i], (24 + i) * 1000 + 24) << i;
}

TEST_F(RegionsTest, AnEndlessLoopInStepIsCut) {
  ASSERT_EQ(FormOf(Text(kEndless)), CodeForm::kRegions);
  ExecutorOptions options = TestOptions();
  options.watchdog_ns = 50'000'000;
  ConfigureExecutor(options);
  Kernel* kernel = Find(Load(Text(kEndless)), "k");
  DeviceArray<uint32_t> out(64);
  const ExecResult result = Run(kernel, {2}, {64}, out.address(), 40u);
  EXPECT_EQ(result.status, ExecStatus::kTimeout) << result.message;
}

constexpr Dim3 kShapes[] = {{1, 1, 1}, {7, 5, 1}, {32, 4, 1}, {100, 1, 1}, {256, 1, 1}, {9, 7, 11}};

TEST_F(RegionsTest, ThreadsMayLeaveAheadOfTheOthers) {
  ASSERT_EQ(FormOf(Text(kLeaving)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kLeaving)), "k");
  for (const Dim3 block : {Dim3{1, 1, 1}, Dim3{7, 5, 1}, Dim3{100, 1, 1}, Dim3{256, 1, 1}}) {
    const uint32_t threads = block.x * block.y;
    for (const uint32_t stay : {0u, 1u, 3u, 31u, 33u, 64u, 1000u}) {
      DeviceArray<uint32_t> out(threads);
      for (uint32_t i = 0; i < threads; ++i) out.data()[i] = 9;
      EXPECT_RUNS(Run(kernel, {1}, block, out.address(), stay));
      const uint32_t left = std::min(stay, threads);
      uint32_t high = 0;
      auto right = [&](uint32_t i) { return (i + 1) % threads; };
      for (uint32_t i = 0; i < left; ++i) high += i != 2 && right(i) > 3;
      for (uint32_t i = 0; i < threads; ++i) {
        uint32_t expected = 9;
        if (i == 2 && i < left) {
          expected = 7777;
        } else if (i < left) {
          uint32_t lanes = 0;
          for (uint32_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) lanes += k < left && k != 2;
          const bool in_range = i % 32 < 31;
          const uint32_t other = !in_range ? i : i + 1 < left && i + 1 != 2 ? i + 1 : 0;
          expected = right(i) + high + other * 1000 + lanes * 1000000;
        }
        EXPECT_EQ(out[i], expected) << i << " of " << threads << ", " << stay << " stay";
      }
    }
  }
}

TEST_F(RegionsTest, ThreadsMayLeaveALoopThatMeets) {
  ASSERT_EQ(FormOf(Text(kLeavingLoop)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kLeavingLoop)), "k");
  for (const Dim3 block : kShapes) {
    if (block.z != 1) continue;
    const uint32_t threads = block.x * block.y, rounds = 40;
    DeviceArray<uint32_t> out(threads);
    EXPECT_RUNS(Run(kernel, {1}, block, out.address(), rounds));
    for (uint32_t i = 0; i < threads; ++i) {
      const uint32_t own = std::min(i + 1, rounds), next = (i + 1) % threads;
      uint32_t sum = 0;
      // The neighbour's counter stays where it left.
      for (uint32_t round = 0; round < own; ++round) sum += std::min(round, next);
      EXPECT_EQ(out[i], i >= rounds ? sum + 100000 : sum) << i << " of " << threads;
    }
  }
}

TEST_F(RegionsTest, LoopsOverNeighboursItemsGoInStep) {
  ASSERT_EQ(FormOf(Text(kStrided)), CodeForm::kRegions);
  Kernel* kernel = Find(Load(Text(kStrided)), "k");
  for (const Dim3 block : kShapes) {
    if (block.z != 1) continue;
    const uint32_t threads = block.x * block.y;
    for (const uint32_t items : {0u, 1u, 31u, 100u, 777u, 2000u}) {
      DeviceArray<uint32_t> out(threads + items);
      for (uint32_t i = 0; i < items; ++i) out.data()[threads + i] = i * i + i / 3;
      EXPECT_RUNS(Run(kernel, {1}, block, out.address(), items));
      std::vector<uint32_t> sum(threads), count(threads), last(threads);
      for (uint32_t i = 0; i < threads; ++i) {
        for (last[i] = i; last[i] < items; last[i] += threads) {
          const uint32_t item = last[i] * last[i] + last[i] / 3;
          if (item & 1) sum[i] += item;
          ++count[i];
        }
      }
      for (uint32_t i = 0; i < threads; ++i) {
        EXPECT_EQ(out[i], sum[(i + 1) % threads] + count[i] + last[i] * 1000 +
                              (i < items ? 6000000 : 5000000))
            << i << " of " << threads << ", " << items << " items";
      }
    }
  }
}

TEST_F(RegionsTest, BlocksOfAnyShapeComputeTheSame) {
  Kernel* kernel = Find(Load(Text(kUniform)), "k");
  for (const Dim3 block :
       {Dim3{1, 1, 1}, Dim3{7, 5, 1}, Dim3{32, 4, 1}, Dim3{100, 1, 1}, Dim3{1024, 1, 1}}) {
    const uint32_t threads = block.x * block.y;
    DeviceArray<uint32_t> out(threads);
    EXPECT_RUNS(Run(kernel, {1}, block, out.address(), 4u));
    const std::vector<uint32_t> expected = Expected(threads, 4);
    EXPECT_EQ(std::vector<uint32_t>(out.data(), out.data() + threads), expected) << threads;
  }
}

}  // namespace
}  // namespace farcall::cpu_device
