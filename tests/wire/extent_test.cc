// SPDX-License-Identifier: Apache-2.0
// The extents that generated functions check are the bytes the call touches, and never wrap around.
#include <limits>

#include "generated/client/calls.h"
#include "generated/server/handwritten.h"
#include "tests/wire/wire_fixture.h"

namespace farcall::wire_test {
namespace {

constexpr uint64_t kBeyond = std::numeric_limits<uint64_t>::max();

class Extent : public Wire {
 public:
  // The bytes checked for a 2D fill with 32-bit elements.
  uint64_t Of(uint64_t pitch, uint64_t width, uint64_t height) {
    api.cuMemsetD2D32Async = [](CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream) {
      return CUDA_SUCCESS;
    };
    Serve(CallId::cuMemsetD2D32Async, &server::Serve_cuMemsetD2D32Async);
    EXPECT_EQ(client::Post_cuMemsetD2D32Async(0x200000000000, pitch, 0, width, height, nullptr),
              CUDA_SUCCESS);
    return last_extent;
  }
};

TEST_F(Extent, EndsWithTheLastRow) {
  EXPECT_EQ(Of(512, 10, 3), 2 * 512 + 40u);
}
TEST_F(Extent, OfNoRowsIsNothing) {
  EXPECT_EQ(Of(512, 10, 0), 0u);
}
TEST_F(Extent, OfAWidthThatOverflowsIsBeyondEverything) {
  EXPECT_EQ(Of(512, kBeyond / 2, 1), kBeyond);
}
TEST_F(Extent, OfAPitchThatOverflowsIsBeyondEverything) {
  EXPECT_EQ(Of(uint64_t{1} << 63, 1, 4), kBeyond);
}
TEST_F(Extent, OfASumThatOverflowsIsBeyondEverything) {
  EXPECT_EQ(Of(kBeyond - 3, 1, 2), kBeyond);
}

TEST_F(Extent, OfALinearFillCountsElements) {
  api.cuMemsetD16Async = [](CUdeviceptr, unsigned short, size_t, CUstream) { return CUDA_SUCCESS; };
  Serve(CallId::cuMemsetD16Async, &server::Serve_cuMemsetD16Async);
  EXPECT_EQ(client::Post_cuMemsetD16Async(0x200000000000, 0, 100, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(last_extent, 200u);
}

}  // namespace
}  // namespace farcall::wire_test
