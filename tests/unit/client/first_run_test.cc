// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/first_run.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

TEST(FirstRun, NamesTheKernelAsItsSourceDoes) {
  const char kEnd[] = " for the first time";
  EXPECT_EQ(FirstRunLine({"_Z3addPfS_"}),
            std::string("the CPU device compiles and runs add") + kEnd);
  EXPECT_EQ(FirstRunLine({"_Z3addIfEvPT_"}),
            std::string("the CPU device compiles and runs add<float>") + kEnd);
  EXPECT_EQ(FirstRunLine({"plain"}), std::string("the CPU device compiles and runs plain") + kEnd);
}

TEST(FirstRun, CutsALongNameAndHidesControlCharacters) {
  EXPECT_EQ(FirstRunLine({std::string(100, 'k')}),
            "the CPU device compiles and runs " + std::string(29, 'k') + "... for the first time");
  EXPECT_EQ(FirstRunLine({"a\x1b[2J"}),
            "the CPU device compiles and runs a\\x1b[2J for the first time");
}

TEST(FirstRun, CountsSeveralKernels) {
  EXPECT_EQ(FirstRunLine({"a", "b", "b"}),
            "the CPU device compiles and runs 3 kernels for the first time");
}

TEST(FirstRun, IsOverOnceAWaitThatBeganAfterItIs) {
  NoteFirstRun("first");
  {
    const FirstRunWait wait;
    NoteFirstRun("second");
    EXPECT_EQ(g_first_runs.load(), 2u);
  }
  EXPECT_EQ(g_first_runs.load(), 1u) << "the second was sent after the wait began";
  { const FirstRunWait wait; }
  EXPECT_EQ(g_first_runs.load(), 0u);
}

}  // namespace
}  // namespace farcall::client
