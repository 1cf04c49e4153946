// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/base/kernels.h"

#include <gtest/gtest.h>

namespace farcall::nccl {
namespace {

TEST(KernelsTest, EightBitFloatsAndOddNumbersAreNoTypes) {
  EXPECT_EQ(ElementBytes(ncclInt8), 1u);
  EXPECT_EQ(ElementBytes(ncclBfloat16), 2u);
  EXPECT_EQ(ElementBytes(ncclFloat64), 8u);
  EXPECT_EQ(ElementBytes(ncclFloat8e4m3), 0u);
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(-1)), 0u);
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(1000)), 0u);
}

TEST(KernelsTest, HalvesComputeInFloatAndRoundOnce) {
  std::string text = ReductionPtx(ncclFloat16, Arithmetic::kSum);
  EXPECT_NE(text.find("add.rn.f32"), std::string::npos);
  EXPECT_NE(text.find("cvt.rn.f16.f32"), std::string::npos);
  EXPECT_EQ(text.find("add.rn.f16"), std::string::npos);
}

TEST(KernelsTest, SignsMatterToLoadsAndComparisons) {
  EXPECT_NE(ReductionPtx(ncclInt8, Arithmetic::kMax).find("ld.global.s8"), std::string::npos);
  EXPECT_NE(ReductionPtx(ncclInt8, Arithmetic::kMax).find("max.s32"), std::string::npos);
  EXPECT_NE(ReductionPtx(ncclUint64, Arithmetic::kMin).find("min.u64"), std::string::npos);
  EXPECT_NE(ReductionPtx(ncclInt32, Arithmetic::kProd).find("mul.lo.s32"), std::string::npos);
}

}  // namespace
}  // namespace farcall::nccl
