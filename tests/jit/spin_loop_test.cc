// SPDX-License-Identifier: Apache-2.0
// Which loops let other threads of the block run: those that wait for them, and no others.
#include "cpu-device/jit/exchange/spin_loop.h"

#include <gtest/gtest.h>

#include <string>

namespace farcall::cpu_device::jit {
namespace {

// Asks of the loop that is `body`, from its label to the branch back that ends it.
bool Spins(const std::string& body) {
  const std::string text =
      ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.shared .b32 lock;\n"
      "ld.param.u64 %rd1, [p];\nmov.u32 %r1, 0;\nAGAIN:\n" +
      body + "\nret;\n}\n";
  ptx::Module module;
  EXPECT_TRUE(ptx::Parse(text, &module).ok());
  EXPECT_TRUE(module.EnsureAll().ok());
  const ptx::Function& function = *module.functions.at(0);
  uint32_t last = 0;
  for (uint32_t i = 0; i < function.body.size(); ++i)
    if (function.body[i].Is(ptx::Opcode::kBra)) last = i;
  return IsSpinLoop(function, static_cast<uint32_t>(function.body[last].operands[0].value), last);
}

const std::string kCount = "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 100;\n@%p1 bra AGAIN;";

TEST(SpinLoop, CountingWithAtomicsIsNone) {
  EXPECT_FALSE(
      Spins("ld.global.u32 %r2, [%rd1];\natom.shared.add.u32 %r3, [lock], %r2;\n" + kCount));
}

TEST(SpinLoop, NoneHasAPlainLoopOfLoads) {
  EXPECT_FALSE(Spins("ld.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra AGAIN;"));
}

TEST(SpinLoop, AnAtomicDecides) {
  EXPECT_TRUE(
      Spins("atom.shared.cas.b32 %r2, [lock], 0, 1;\nsetp.ne.s32 %p1, %r2, 0;\n@%p1 bra AGAIN;"));
}

TEST(SpinLoop, AnAtomicDecidesThroughOtherRegisters) {
  EXPECT_TRUE(
      Spins("atom.shared.add.u32 %r2, [lock], 0;\nadd.u32 %r3, %r2, 1;\nand.b32 %r4, %r3, 7;\n"
            "setp.ne.s32 %p1, %r4, 0;\n@%p1 bra AGAIN;"));
}

// A lock taken, work done and a flag set under its predicate: no branch asks for the atomic itself.
TEST(SpinLoop, AnAtomicDecidesThroughAGuard) {
  EXPECT_TRUE(
      Spins("atom.shared.cas.b32 %r2, [lock], 0, 1;\nsetp.eq.s32 %p1, %r2, 0;\n"
            "@%p1 mov.u32 %r3, 1;\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra AGAIN;"));
}

TEST(SpinLoop, ALoadBesideAnAtomicDecides) {
  EXPECT_TRUE(
      Spins("atom.shared.add.u32 %r2, [lock], 1;\nld.global.u32 %r3, [%rd1];\n"
            "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra AGAIN;"));
}

TEST(SpinLoop, SleepingIs) {
  EXPECT_TRUE(Spins("nanosleep.u32 20;\n" + kCount));
}

TEST(SpinLoop, CountingOverVolatileMemoryIsNone) {
  EXPECT_FALSE(Spins("ld.volatile.shared.u32 %r2, [lock];\nbar.sync 0;\n" + kCount));
}

TEST(SpinLoop, AStrongLoadDecides) {
  const std::string ask = "setp.eq.u32 %p1, %r2, 0;\n@%p1 bra AGAIN;";
  EXPECT_TRUE(Spins("ld.volatile.global.u32 %r2, [%rd1];\n" + ask));
  EXPECT_TRUE(Spins("ld.acquire.gpu.global.u32 %r2, [%rd1];\n" + ask));
}

// A way out in the loop's middle, and a count at its end.
TEST(SpinLoop, AStrongLoadDecidesAheadOfACount) {
  EXPECT_TRUE(
      Spins("ld.volatile.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 ret;\n" + kCount));
}

TEST(SpinLoop, TheClockDecides) {
  EXPECT_TRUE(
      Spins("mov.u32 %r2, %clock;\nsub.u32 %r3, %r2, %r1;\nsetp.lt.u32 %p1, %r3, 1000;\n"
            "@%p1 bra AGAIN;"));
  EXPECT_TRUE(Spins("mov.u64 %rd2, %clock64;\nsetp.lt.s64 %p1, %rd2, %rd1;\n@%p1 bra AGAIN;"));
  EXPECT_TRUE(Spins("mov.u64 %rd2, %globaltimer;\nsetp.lt.u64 %p1, %rd2, %rd1;\n@%p1 bra AGAIN;"));
}

TEST(SpinLoop, TakingTheTimeOfWhatItDoesIsNone) {
  EXPECT_FALSE(
      Spins("ld.global.u32 %r2, [%rd1];\nmov.u64 %rd2, %clock64;\n"
            "st.global.u64 [%rd1], %rd2;\n" +
            kCount));
}

}  // namespace
}  // namespace farcall::cpu_device::jit
