// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by nvcc (lockstep.cu) in which a lane reads what others of its warp stored,
// without a barrier, against sums computed here.
#include <numeric>

#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr uint32_t kWarp = 32, kWarpsOfBlock = 3, kBlocks = 4;

class LockstepSums : public ProgramTest {
 protected:
  Kernel* Get(const std::string& name) {
    if (!program_) program_ = LoadFile(FARCALL_LOCKSTEP_PTX);
    return Find(program_, name);
  }
  static std::vector<uint32_t> Values(uint32_t count) {
    std::vector<uint32_t> values(count);
    for (uint32_t i = 0; i < count; ++i) values[i] = 17 + 7919 * i % 1009;
    return values;
  }
  // Of each warp's values, each with `more` on top.
  static std::vector<uint32_t> SumsOf(const std::vector<uint32_t>& values, uint32_t more = 0,
                                      uint32_t count = kWarp) {
    std::vector<uint32_t> sums;
    for (size_t at = 0; at < values.size(); at += kWarp) {
      sums.push_back(std::accumulate(values.begin() + at, values.begin() + at + count, 0u) +
                     more * count);
    }
    return sums;
  }
  template <typename... T>
  void ExpectSums(const char* name, uint32_t warps, const std::vector<uint32_t>& want,
                  const T&... more) {
    DeviceArray<uint32_t> in(Values(kBlocks * warps * kWarp)), out(kBlocks * warps * kWarp);
    EXPECT_RUNS(Run(Get(name), {kBlocks}, {warps * kWarp}, in.address(), out.address(), more...));
    EXPECT_EQ(std::vector<uint32_t>(out.data(), out.data() + want.size()), want) << name;
  }

  const std::vector<uint32_t> of_one_ = Values(kBlocks * kWarp);
  const std::vector<uint32_t> of_three_ = Values(kBlocks * kWarpsOfBlock * kWarp);
  Program* program_ = nullptr;
};

TEST_F(LockstepSums, ByTheFirstThread) {
  ExpectSums("SumByThreadZero", 1, SumsOf(of_one_));
}

TEST_F(LockstepSums, OfAsManyAsAreAskedFor) {
  ExpectSums("SumOfSome", 1, SumsOf(of_one_, 0, 29), 29u);
}

TEST_F(LockstepSums, ByTheFirstLaneOfEachWarp) {
  ExpectSums("SumByLaneZero", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, ByAPointer) {
  ExpectSums("SumByPointer", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, FromTheLastToTheFirst) {
  std::vector<uint32_t> want;
  for (size_t at = 0; at < of_three_.size(); at += kWarp) {
    uint32_t sum = 0;
    for (uint32_t k = kWarp; k-- > 0;) sum = sum * 3 + of_three_[at + k];
    want.push_back(sum);
  }
  ExpectSums("SumBackwards", kWarpsOfBlock, want);
}

TEST_F(LockstepSums, OfVolatileMemory) {
  ExpectSums("SumOfVolatile", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, InGlobalMemory) {
  DeviceArray<uint32_t> scratch(of_three_.size());
  ExpectSums("SumInGlobal", kWarpsOfBlock, SumsOf(of_three_, 1), scratch.address());
}

TEST_F(LockstepSums, InVolatileGlobalMemory) {
  DeviceArray<uint32_t> scratch(of_one_.size());
  ExpectSums("SumInVolatileGlobal", 1, SumsOf(of_one_, 1), scratch.address());
}

TEST_F(LockstepSums, OfPlacesThatAFunctionNames) {
  ExpectSums("SumByHelper", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, ByAFunction) {
  ExpectSums("SumInFunction", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, OfWhatAFunctionStored) {
  ExpectSums("SumOfPut", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, ByTree) {
  ExpectSums("SumByTree", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, ByTreeInVolatileMemory) {
  ExpectSums("SumByVolatileTree", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, ByTreeInAFunction) {
  ExpectSums("SumByTreeInFunction", kWarpsOfBlock, SumsOf(of_three_));
}

TEST_F(LockstepSums, OfSums) {
  std::vector<uint32_t> want(kBlocks);
  for (size_t i = 0; i < of_three_.size(); ++i) want[i / (kWarp * kWarpsOfBlock)] += of_three_[i];
  ExpectSums("SumOfSums", kWarpsOfBlock, want);
}

TEST_F(LockstepSums, OfSeveralRounds) {
  constexpr uint32_t kRounds = 4;
  std::vector<uint32_t> want;
  for (size_t at = 0; at < of_three_.size(); at += kWarp) {
    uint32_t sum = 0;
    for (uint32_t round = 1; round <= kRounds; ++round)
      for (uint32_t k = 0; k < kWarp; ++k) sum = sum * 5 + of_three_[at + k] * round;
    want.push_back(sum);
  }
  ExpectSums("SumOfRounds", kWarpsOfBlock, want, kRounds);
}

TEST_F(LockstepSums, TheLastLaneTellsTheOthers) {
  std::vector<uint32_t> want = of_three_;
  for (size_t i = 0; i < want.size(); ++i) want[i] += of_three_[i | 31];
  ExpectSums("TellAll", kWarpsOfBlock, want);
}

std::vector<std::string>* g_warnings = nullptr;

// Once for a kernel, in quick code and in optimised code; none of the others is in doubt.
TEST_F(LockstepSums, WhatIsInDoubtIsTold) {
  std::vector<std::string> warnings;
  g_warnings = &warnings;
  ExecutorOptions options = TestOptions();
  options.warn = [](const std::string& text) { g_warnings->push_back(text); };
  ConfigureExecutor(options);
  const uint32_t count = static_cast<uint32_t>(of_one_.size());
  DeviceArray<uint32_t> in(of_one_), out(count), list(count), scratch(count);
  Get("ReadByList");
  for (int time = 0; time < 2; ++time) {
    for (const std::string& name : program_->KernelNames())
      EXPECT_TRUE(program_->FindKernel(name)->Prepare().ok()) << name;
    EXPECT_RUNS(Run(Get("ReadByList"), {kBlocks}, {kWarp}, in.address(), out.address(),
                    list.address(), scratch.address()));
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("kernel ReadByList ("), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("lockstep.cu"), std::string::npos) << warnings[0];
  options.lockstep = true;
  ConfigureExecutor(options);
  Program* again = LoadFile(FARCALL_LOCKSTEP_PTX);
  EXPECT_TRUE(Find(again, "ReadByList")->Prepare().ok());
  EXPECT_EQ(warnings.size(), 1u);
  ConfigureExecutor(TestOptions());
}

// Kernels that need no lockstep are neither told nor made slower.
TEST_F(LockstepSums, OrdinaryKernelsAreNotInDoubt) {
  std::vector<std::string> warnings;
  g_warnings = &warnings;
  ExecutorOptions options = TestOptions();
  options.warn = [](const std::string& text) { g_warnings->push_back(text); };
  ConfigureExecutor(options);
  Program* program = LoadFile(FARCALL_KERNELS_PTX);
  for (const std::string& name : program->KernelNames())
    EXPECT_TRUE(program->FindKernel(name)->Prepare().ok()) << name;
  EXPECT_EQ(warnings, std::vector<std::string>{});
  ConfigureExecutor(TestOptions());
}

}  // namespace
}  // namespace farcall::cpu_device
