// SPDX-License-Identifier: Apache-2.0
// What the generated round trips of the made-up API leave out: null where null is allowed, and
// where it is not.
#include "generated/client/calls.h"
#include "generated/server/handwritten.h"
#include "tests/wire/wire_fixture.h"

namespace farcall::wire_test {
namespace {

class Shapes : public Wire {};

TEST_F(Shapes, AnAbsentInputArrivesAsNull) {
  api.cuOptionalIn = [](const int* value, const ShapePoint* point) {
    ++native_calls;
    EXPECT_EQ(value, nullptr);
    EXPECT_EQ(point->x, 1.5f);
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuOptionalIn, &server::Serve_cuOptionalIn);
  ShapePoint point{1.5f, {}};
  EXPECT_EQ(client::RoundTrip_cuOptionalIn(nullptr, &point), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
}

TEST_F(Shapes, AnUnwantedOutputIsDropped) {
  api.cuOptionalOut = [](int* needed, int* wanted) {
    *needed = 7;
    *wanted = 8;
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuOptionalOut, &server::Serve_cuOptionalOut);
  int needed = 0;
  EXPECT_EQ(client::RoundTrip_cuOptionalOut(&needed, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(needed, 7);
}

TEST_F(Shapes, ANeededOutputMayNotBeNull) {
  int wanted = 0;
  EXPECT_EQ(client::RoundTrip_cuOptionalOut(nullptr, &wanted), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client::RoundTrip_cuInOut(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client::Post_cuString(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(native_calls, 0);
}

TEST_F(Shapes, AnAbsentArrayMustBeEmpty) {
  api.cuArrays = [](const double*, unsigned count, const ShapeKind*) {
    ++native_calls;
    EXPECT_EQ(count, 0u);
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuArrays, &server::Serve_cuArrays);
  EXPECT_EQ(client::Post_cuArrays(nullptr, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
  EXPECT_EQ(client::Post_cuArrays(nullptr, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Shapes, AnArrayWhoseLengthDiffersFromItsCountIsALie) {
  api.cuBlocks = [](const CUevent*, size_t, CUstream) {
    ++native_calls;
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuBlocks, &server::Serve_cuBlocks);
  Builder body;
  body.Put<uint64_t>(1);
  body.Put<uint64_t>(MakeHandle(HandleKind::kEvent, 1, 1));
  body.Put<uint64_t>(1000000);  // the count the device library would believe
  body.Put<uint64_t>(1);
  well_formed = false;
  std::vector<std::byte> reply;
  Deliver(CallId::cuBlocks, body.bytes(), &reply);
  EXPECT_FALSE(last_was_ok);
  EXPECT_EQ(native_calls, 0);
}

TEST_F(Shapes, AnOptionalHandleMayBeNull) {
  api.cuOptionalContext = [](CUcontext context, int) {
    ++native_calls;
    EXPECT_EQ(context, nullptr);
    return CUDA_SUCCESS;
  };
  Serve(CallId::cuOptionalContext, &server::Serve_cuOptionalContext);
  EXPECT_EQ(client::RoundTrip_cuOptionalContext(nullptr, 3), CUDA_SUCCESS);
  EXPECT_EQ(native_calls, 1);
}

}  // namespace
}  // namespace farcall::wire_test
