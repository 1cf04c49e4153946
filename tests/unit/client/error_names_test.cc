// SPDX-License-Identifier: Apache-2.0
// cuGetErrorString says what NVIDIA's driver says: programs and tests look for its words. The
// runtime has the same texts by the same numbers, and ours come from another list.
#include "cuda-abi/error_names.h"

#include <gtest/gtest.h>

namespace farcall {
namespace {

struct RuntimeError {
  int code;
  const char* name;
  const char* text;
};

constexpr RuntimeError kRuntimeErrors[] = {
#include "generated/cudart/error_names.inc"
};

TEST(ErrorNames, TheDriverSaysWhatTheRuntimeSaysOfTheSameNumber) {
  int shared = 0;
  for (const RuntimeError& error : kRuntimeErrors) {
    const char* text = cuda_abi::ErrorText(static_cast<CUresult>(error.code));
    if (text == nullptr) continue;
    ++shared;
    EXPECT_STREQ(text, error.text) << error.code << ", " << error.name;
  }
  EXPECT_GT(shared, 90);
}

TEST(ErrorNames, OfNoSuchNumberThereIsNone) {
  EXPECT_EQ(cuda_abi::ErrorName(static_cast<CUresult>(54321)), nullptr);
  EXPECT_EQ(cuda_abi::ErrorText(static_cast<CUresult>(54321)), nullptr);
  EXPECT_STREQ(cuda_abi::ErrorName(CUDA_ERROR_NOT_FOUND), "CUDA_ERROR_NOT_FOUND");
}

}  // namespace
}  // namespace farcall
