// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/slow_step.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

TEST(SlowStep, SaysWhatItIsAndHowMuchIsDone) {
  EXPECT_EQ(SlowStepLine("loading kernels of libx.so", 0, 0, 3),
            "farcall: loading kernels of libx.so, 3 s");
  EXPECT_EQ(SlowStepLine("copying to the device", 64ull << 20, 12ull << 20, 2),
            "farcall: copying to the device, 12 of 64 MiB, 2 s");
  EXPECT_EQ(SlowStepLine("copying from the device", 4ull << 30, 1288490189, 11),
            "farcall: copying from the device, 1.2 of 4.0 GiB, 11 s");
}

TEST(SlowStep, NeverShowsMoreThanThereIs) {
  EXPECT_EQ(SlowStepLine("copying", 1ull << 20, 5ull << 20, 1),
            "farcall: copying, 1 of 1 MiB, 1 s");
}

TEST(SlowStep, KeepsALongNameInOneLine) {
  EXPECT_LT(SlowStepLine(std::string(500, 'x'), 1ull << 40, 0, 100000).size(), 140u);
}

TEST(SlowStep, IsNothingWhereStderrIsNoTerminal) {
  SetProgress(true);
  if (ShowsProgress()) GTEST_SKIP() << "stderr is a terminal";
  const SlowStep step("waiting", 1, []() -> uint64_t {
    ADD_FAILURE() << "asked for its bytes";
    return 0;
  });
}

}  // namespace
}  // namespace farcall::client
