// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by nvcc (kernels.cu), results against values computed here.
#include <unistd.h>

#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

class CompiledTest : public ProgramTest {
 protected:
  Kernel* Get(const std::string& name) {
    if (!program_) program_ = LoadFile(FARCALL_KERNELS_PTX);
    return Find(program_, name);
  }
  Program* program_ = nullptr;
};

TEST_F(CompiledTest, EveryKernelCompiles) {
  Get("MatrixMultiplyTiled");
  for (const std::string& name : program_->KernelNames()) {
    ExecResult result = program_->FindKernel(name)->Prepare();
    EXPECT_TRUE(result.ok()) << name << ": " << result.message;
  }
}

TEST_F(CompiledTest, TiledMatrixProduct) {
  constexpr int kN = 64;
  DeviceArray<float> a(kN * kN), b(kN * kN), c(kN * kN);
  for (int i = 0; i < kN * kN; ++i) {
    a[i] = static_cast<float>(i % 7 - 3);
    b[i] = static_cast<float>(i % 5 - 2);
  }
  EXPECT_RUNS(Run(Get("MatrixMultiplyTiled"), {kN / 16, kN / 16}, {16, 16}, a.address(),
                  b.address(), c.address(), kN));
  for (int row = 0; row < kN; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kN; ++k) sum += a[row * kN + k] * b[k * kN + column];
      ASSERT_EQ(c[row * kN + column], sum) << row << "," << column;
    }
  }
}

TEST_F(CompiledTest, ReductionByShuffles) {
  constexpr int kN = 100000;
  DeviceArray<int> in(kN);
  DeviceArray<unsigned long long> out(1);
  long long expected = 0;
  for (int i = 0; i < kN; ++i) expected += in[i] = i * 31 % 1000;
  EXPECT_RUNS(Run(Get("ReduceShuffle"), {8}, {256}, in.address(), out.address(), kN));
  EXPECT_EQ(out[0], static_cast<unsigned long long>(expected));
}

TEST_F(CompiledTest, HistogramInSharedMemory) {
  constexpr int kN = 50000;
  DeviceArray<unsigned char> in(kN);
  DeviceArray<unsigned> out(256);
  std::vector<unsigned> expected(256);
  for (int i = 0; i < kN; ++i) ++expected[in[i] = static_cast<unsigned char>(i % 251 * i % 251)];
  EXPECT_RUNS(Run(Get("HistogramShared"), {5}, {128}, in.address(), out.address(), kN));
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST_F(CompiledTest, DivergentLoops) {
  constexpr unsigned kN = 5000;
  DeviceArray<unsigned> steps(kN);
  EXPECT_RUNS(Run(Get("CollatzSteps"), {(kN + 63) / 64}, {64}, steps.address(), kN));
  for (unsigned i = 0; i < kN; ++i) {
    unsigned long long x = i + 1;
    unsigned count = 0;
    for (; x != 1; ++count) x = (x & 1) ? 3 * x + 1 : x / 2;
    ASSERT_EQ(steps[i], count) << i;
  }
}

TEST_F(CompiledTest, PrintfReachesTheConfiguredDescriptor) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ExecutorOptions options = TestOptions();
  options.output_fd = pipe_ends[1];
  ConfigureExecutor(options);
  EXPECT_RUNS(Run(Get("PrintThread"), {1}, {2}, 5));
  FlushDeviceOutput();
  close(pipe_ends[1]);
  char text[512] = {};
  ASSERT_GT(read(pipe_ends[0], text, sizeof(text) - 1), 0);
  close(pipe_ends[0]);
  EXPECT_STREQ(text,
               "block 0 thread 0: text  2.50 1099511627776 x%\n"
               "block 0 thread 1: text  2.50 1099511627776 x%\n");
}

TEST_F(CompiledTest, AssertEndsTheGridWithItsText) {
  int sink[2];
  ASSERT_EQ(pipe(sink), 0);
  ExecutorOptions options = TestOptions();
  options.output_fd = sink[1];
  ConfigureExecutor(options);
  EXPECT_RUNS(Run(Get("AssertBelow"), {1}, {4}, 4));
  ExecResult result = Run(Get("AssertBelow"), {1}, {5}, 4);
  EXPECT_EQ(result.status, ExecStatus::kAssert);
  EXPECT_NE(result.message.find("thread: [4,0,0]"), std::string::npos) << result.message;
  FlushDeviceOutput();
  close(sink[0]);
  close(sink[1]);
}

TEST_F(CompiledTest, BarrierInsideACalledFunction) {
  constexpr int kN = 96;
  DeviceArray<int> out(kN);
  EXPECT_RUNS(RunShared(Get("BarrierInFunction"), {1}, {kN}, kN * 4, out.address()));
  int first = kN * (kN - 1) / 2;
  for (int i = 0; i < kN; ++i) EXPECT_EQ(out[i], first * kN + first) << i;
}

TEST_F(CompiledTest, Recursion) {
  DeviceArray<int> out(16);
  EXPECT_RUNS(Run(Get("Recursive"), {1}, {16}, out.address()));
  int a = 0, b = 1;
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], a);
    int next = a + b;
    a = b;
    b = next;
  }
}

TEST_F(CompiledTest, CallsThroughPointers) {
  DeviceArray<int> out(33);
  EXPECT_RUNS(Run(Get("FunctionPointers"), {1}, {33}, out.address()));
  for (int i = 0; i < 33; ++i) EXPECT_EQ(out[i], i % 3 == 0 ? 2 * i : i % 3 == 1 ? i * i : -i) << i;
}

TEST_F(CompiledTest, VirtualCallsOnTheDeviceHeap) {
  constexpr uint64_t kHeapBytes = 64 << 10;
  SetDeviceHeap(TestMemory::Get().Allocate(kHeapBytes, 256), kHeapBytes);
  DeviceArray<float> out(20);
  EXPECT_RUNS(Run(Get("VirtualCalls"), {1}, {20}, out.address()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(out[i], (i & 1) ? 3.0f * i * i : i * 2.0f) << i;
}

TEST_F(CompiledTest, LocalArrays) {
  DeviceArray<int> out(50);
  EXPECT_RUNS(Run(Get("LocalArray"), {1}, {50}, out.address(), 11));
  for (int t = 0; t < 50; ++t) {
    uint32_t a[32], at = 11 & 31, sum = 0;
    for (uint32_t i = 0; i < 32; ++i) a[i] = i * 11 + static_cast<uint32_t>(t);
    for (int i = 0; i < 64; ++i) {
      sum += a[at];
      at = (at * 5 + 3) & 31;
      a[at] ^= sum;
    }
    ASSERT_EQ(static_cast<uint32_t>(out[t]), sum) << t;
  }
}

TEST_F(CompiledTest, CoalescedGroupsCountEveryThreadOnce) {
  constexpr int kN = 1000;
  DeviceArray<int> in(kN), count(1);
  int expected = 0;
  for (int i = 0; i < kN; ++i) expected += (in[i] = i % 3 - 1) > 0;
  EXPECT_RUNS(Run(Get("AggregatedCount"), {4}, {256}, in.address(), count.address(), kN));
  EXPECT_EQ(count[0], expected);
}

TEST_F(CompiledTest, VotesMatchesAndDividedShuffles) {
  DeviceArray<unsigned> out(128);
  EXPECT_RUNS(Run(Get("Votes"), {1}, {32}, out.address()));
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) ballot |= 1u << lane;
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], ballot);
    EXPECT_EQ(out[32 + lane], 3u);
    EXPECT_EQ(out[64 + lane], 0xffu << (lane / 8 * 8));
    unsigned from = (lane + 1) % 16;
    unsigned expected = lane < 16 ? from * from : (lane == 16 ? 16 : lane - 1);
    EXPECT_EQ(out[96 + lane], expected) << lane;
  }
}

TEST_F(CompiledTest, AtomicsOfAllWidths) {
  constexpr int kN = 3000;
  DeviceArray<double> sum(1);
  DeviceArray<float> fsum(1);
  DeviceArray<int> extremes(4);
  EXPECT_RUNS(
      Run(Get("AtomicDouble"), {12}, {256}, sum.address(), fsum.address(), extremes.address(), kN));
  EXPECT_EQ(sum[0], 0.5 * kN * (kN - 1) / 2);
  EXPECT_EQ(fsum[0], static_cast<float>(kN));
  EXPECT_EQ(extremes[0], kN - 1);
  EXPECT_EQ(extremes[1], -(kN - 1));
  EXPECT_EQ(extremes[2], kN % 7);
  EXPECT_GT(extremes[3], 0);
}

TEST_F(CompiledTest, GridBarrierOfACooperativeLaunch) {
  constexpr int kBlocks = 12, kThreads = 64, kN = kBlocks * kThreads, kRounds = 5;
  DeviceArray<int> data(kN), out(kN);
  std::vector<int> now(kN);
  for (int i = 0; i < kN; ++i) now[i] = data[i] = i * 17 % 101;
  Kernel* kernel = Get("GridSync");
  EXPECT_TRUE(kernel->info().uses_grid_sync);
  LaunchConfig config;
  config.grid = {kBlocks};
  config.block = {kThreads};
  config.cooperative = true;
  Arguments arguments(kernel->info());
  arguments.Add(data.address()).Add(out.address()).Add(kRounds);
  EXPECT_RUNS(kernel->Run(config, arguments.data()));
  for (int r = 0; r < kRounds; ++r) {
    std::vector<int> next(kN);
    for (int i = 0; i < kN; ++i) next[i] = now[(i + 1) % kN] + 1;
    now = next;
  }
  for (int i = 0; i < kN; ++i) ASSERT_EQ(out[i], now[i]) << i;
}

TEST_F(CompiledTest, AThreadThatSpinsLetsTheOthersRun) {
  DeviceArray<int> flag(1), out(2);
  EXPECT_RUNS(Run(Get("SpinBetweenWarps"), {1}, {64}, flag.address(), out.address()));
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[1], 8);
}

TEST_F(CompiledTest, BlocksThatWaitForLaterBlocksComplete) {
  for (const uint32_t blocks : {9u, 700u}) {
    DeviceArray<int> out(blocks);
    EXPECT_RUNS(Run(Get("SpinBetweenBlocks"), {blocks}, {32}, out.address()));
    for (uint32_t i = 0; i < blocks; ++i) EXPECT_EQ(out[i], static_cast<int>(i));
  }
}

// They never come to rest: each round has a barrier in it.
TEST_F(CompiledTest, BlocksThatWaitAroundABarrierComplete) {
  DeviceArray<int> out(200);
  EXPECT_RUNS(Run(Get("SpinAroundBarrier"), {200}, {64}, out.address()));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(out[i], 200 - i) << i;
}

TEST_F(CompiledTest, UnevenBarriersAndReductions) {
  DeviceArray<int> out(100);
  EXPECT_RUNS(Run(Get("UnevenBarrier"), {1}, {100}, out.address()));
  for (int i = 0; i < 70; ++i) EXPECT_EQ(out[i], 70 + 35 * 1000 + 100000) << i;
}

TEST_F(CompiledTest, GlobalsAndConstantsAreInitialised) {
  DeviceArray<int> out(16);
  EXPECT_RUNS(Run(Get("GlobalsAndConstants"), {1}, {16}, out.address()));
  const int offsets[8] = {3, 1, 4, 1, 5, 9, 2, 6};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(out[i], offsets[i % 8]);
  for (const GlobalInfo& global : program_->Globals()) {
    if (global.name.find("counters") == std::string::npos) continue;
    EXPECT_EQ(global.size_bytes, 16u);
    EXPECT_EQ(reinterpret_cast<const int*>(global.address)[0], 14);
    EXPECT_EQ(reinterpret_cast<const int*>(global.address)[3], 44);
  }
}

TEST_F(CompiledTest, MathFunctionsAgreeWithTheHosts) {
  constexpr int kN = 200;
  DeviceArray<float> in(kN), out(kN * 6);
  DeviceArray<double> din(kN), dout(kN * 4);
  for (int i = 0; i < kN; ++i) {
    in[i] = (i - 100) * 0.11f;
    din[i] = (i - 100) * 0.07;
  }
  EXPECT_RUNS(Run(Get("MathFunctions"), {4}, {50}, in.address(), out.address(), din.address(),
                  dout.address(), kN));
  for (int i = 0; i < kN; ++i) {
    float x = in[i];
    double y = din[i];
    const float expected[6] = {sinf(x),  expf(x), logf(fabsf(x) + 1e-3f), powf(fabsf(x), 1.7f),
                               tanhf(x), erff(x)};
    for (int k = 0; k < 6; ++k) {
      ASSERT_NEAR(out[i * 6 + k], expected[k], 4e-6 * std::max(1.0f, fabsf(expected[k])))
          << x << " " << k;
    }
    const double wide[4] = {sin(y), exp(y), log(fabs(y) + 1e-3), cbrt(y) / sqrt(y * y + 2)};
    for (int k = 0; k < 4; ++k)
      ASSERT_NEAR(dout[i * 4 + k], wide[k], 1e-14 * std::max(1.0, fabs(wide[k]))) << y << " " << k;
  }
}

TEST_F(CompiledTest, BfloatRoundsToNearestEven) {
  constexpr int kN = 256;
  DeviceArray<float> in(kN), back(kN);
  DeviceArray<uint16_t> out(kN);
  for (int i = 0; i < kN; ++i) in[i] = std::ldexp(1.0f + i / 256.0f * 0.031f, i % 20 - 10);
  EXPECT_RUNS(Run(Get("Bfloat"), {1}, {kN}, in.address(), out.address(), back.address(), kN));
  for (int i = 0; i < kN; ++i) {
    uint32_t bits;
    memcpy(&bits, &in[i], 4);
    uint32_t low = bits & 0xffff, high = bits >> 16;
    if (low > 0x8000 || (low == 0x8000 && (high & 1))) ++high;
    EXPECT_EQ(out[i], high) << i;
    uint32_t wide = high << 16;
    EXPECT_EQ(memcmp(&back[i], &wide, 4), 0);
  }
}

TEST_F(CompiledTest, StructParametersAreReadByDynamicIndex) {
  struct Parameters {
    int values[5];
    double scale;
    char tag;
  } p = {{1, 2, 3, 4, 5}, 0.5, 7};
  DeviceArray<double> out(10);
  EXPECT_RUNS(Run(Get("StructParameter"), {1}, {10}, p, out.address(), 3));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i], p.values[(3 + i) % 5] * 0.5 + 7) << i;
}

// ---- Faults: the process lives, the message names the kernel, the next launch works.

TEST_F(CompiledTest, NullAndWildAddressesAreIllegal) {
  DeviceArray<int> out(1);
  int on_the_heap = 5;
  std::vector<int> heap(4, 42);
  const uint64_t kBad[] = {0,
                           4,
                           0xdeadbeef000,
                           0x7000000000000000,
                           TestMemory::Get().end(),
                           reinterpret_cast<uint64_t>(heap.data()),
                           reinterpret_cast<uint64_t>(&on_the_heap)};
  for (uint64_t address : kBad) {
    ExecResult read = Run(Get("ReadAt"), {1}, {1}, address, out.address());
    EXPECT_EQ(read.status, ExecStatus::kIllegalAddress) << std::hex << address;
    EXPECT_NE(read.message.find("ReadAt"), std::string::npos) << read.message;
    ExecResult write = Run(Get("WriteAt"), {1}, {1}, address, 1);
    EXPECT_EQ(write.status, ExecStatus::kIllegalAddress) << std::hex << address;
  }
  EXPECT_EQ(on_the_heap, 5);
  EXPECT_EQ(heap[0], 42);
  EXPECT_RUNS(Run(Get("WriteAt"), {1}, {1}, out.address(), 9));
  EXPECT_EQ(out[0], 9);
}

TEST_F(CompiledTest, UnmappedDeviceMemoryIsIllegal) {
  // Inside the window, but the page is not there: the signal's way.
  uint64_t page = TestMemory::Get().Allocate(8192, 4096);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(page), 4096, PROT_NONE), 0);
  ExecResult result = Run(Get("WriteAt"), {1}, {1}, page + 16, 1);
  EXPECT_EQ(result.status, ExecStatus::kIllegalAddress);
  EXPECT_NE(result.message.find("WriteAt"), std::string::npos) << result.message;
  mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE);
  EXPECT_RUNS(Run(Get("WriteAt"), {1}, {1}, page + 16, 1));
}

TEST_F(CompiledTest, SharedMemoryHasAnEnd) {
  DeviceArray<int> out(16);
  EXPECT_RUNS(Run(Get("SharedPastTheEnd"), {1}, {16}, out.address(), 0));
  // The window ends at a multiple of 128 bytes; this array of 64 has it alone.
  ExecResult result = Run(Get("SharedPastTheEnd"), {1}, {16}, out.address(), 24);
  EXPECT_EQ(result.status, ExecStatus::kIllegalAddress) << result.message;
  EXPECT_NE(result.message.find("shared"), std::string::npos) << result.message;
}

TEST_F(CompiledTest, MisalignedVectorsAreRefused) {
  DeviceArray<float> data(64);
  EXPECT_RUNS(Run(Get("MisalignedVector"), {1}, {1}, data.address() + 16, data.address()));
  ExecResult result = Run(Get("MisalignedVector"), {1}, {1}, data.address() + 8, data.address());
  EXPECT_EQ(result.status, ExecStatus::kMisaligned) << result.message;
}

TEST_F(CompiledTest, TheWatchdogStopsAKernelWithoutEnd) {
  ExecutorOptions options = TestOptions();
  options.watchdog_ns = 50'000'000;
  ConfigureExecutor(options);
  DeviceArray<int> flag(1);
  ExecResult result = Run(Get("Forever"), {4}, {32}, flag.address());
  EXPECT_EQ(result.status, ExecStatus::kTimeout) << result.message;
  EXPECT_NE(result.message.find("Forever"), std::string::npos) << result.message;
  flag[0] = 1;
  EXPECT_RUNS(Run(Get("Forever"), {4}, {32}, flag.address()));
}

TEST_F(CompiledTest, TrapEndsTheGrid) {
  ExecResult result = Run(Get("TrapInOneThread"), {2}, {32});
  EXPECT_EQ(result.status, ExecStatus::kTrap) << result.message;
}

TEST_F(CompiledTest, EndlessRecursionOverflowsTheStack) {
  DeviceArray<int> out(1);
  ExecResult result = Run(Get("EndlessRecursion"), {1}, {1}, out.address());
  EXPECT_EQ(result.status, ExecStatus::kStackOverflow) << result.message;
}

TEST_F(CompiledTest, GridsOfManyThreadsDoNotDisturbEachOther) {
  Kernel* reduce = Get("ReduceShuffle");
  Kernel* wild = Get("ReadAt");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      constexpr int kN = 4000;
      DeviceArray<int> in(kN);
      DeviceArray<unsigned long long> out(1);
      unsigned long long expected = 0;
      for (int i = 0; i < kN; ++i) expected += in[i] = i * (t + 1) % 97;
      for (int round = 0; round < 20; ++round) {
        out[0] = 0;
        if (!Run(reduce, {6}, {128}, in.address(), out.address(), kN).ok() || out[0] != expected)
          ++wrong;
        if (t == 3 &&
            Run(wild, {1}, {1}, uint64_t{8}, out.address()).status != ExecStatus::kIllegalAddress)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace farcall::cpu_device
