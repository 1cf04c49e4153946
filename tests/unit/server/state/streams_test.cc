// SPDX-License-Identifier: Apache-2.0
// A session's streams: what waits for work on them, on a driver that the test moves.
#include "server/state/objects/streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/unit/server/state/stream_driver.h"

namespace farcall::server {
namespace {

const CUstream kFirst = reinterpret_cast<CUstream>(0x10),
               kSecond = reinterpret_cast<CUstream>(0x20);

class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() {
    context_.native = reinterpret_cast<CUcontext>(0x1);
    context_.legacy = {streams_.NewKey(), CU_STREAM_LEGACY, &context_};
    context_.legacy.is_default = true;
  }
  ~StreamsTest() override { completion_.Stop(); }
  StreamState Stream(CUstream native) { return {streams_.NewKey(), native, &context_}; }
  std::function<void(CUresult)> Answer() {
    return [this](CUresult result) { answer_.store(result); };
  }
  // What was answered, once nothing is waited for.
  CUresult Answered() {
    completion_.Kick();
    while (!completion_.idle()) std::this_thread::yield();
    return static_cast<CUresult>(answer_.load());
  }
  static constexpr int kNotYet = -1;

  StreamDriver driver_;
  const DriverApi api_ = driver_.Api();
  NoCharges broker_;
  Mirrors mirrors_{api_, broker_};
  MirrorReports reports_{mirrors_, [](std::span<const std::byte>) {}};
  std::atomic<int> answer_{kNotYet};
  ContextState context_;
  Completion completion_{api_, [] {}};
  Streams streams_{api_, completion_, reports_, nullptr};
};

TEST_F(StreamsTest, AFenceOfAnIdleContextHasNothingToWaitFor) {
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(streams_.Fence(context_, Answer(), &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(answer_.load(), kNotYet);
}

TEST_F(StreamsTest, AFenceWaitsForEachStreamWithWork) {
  StreamState first = Stream(kFirst), second = Stream(kSecond);
  streams_.MarkActive(first);
  streams_.MarkActive(second);
  driver_.Work(kFirst);
  driver_.Work(kSecond);
  CUresult result = CUDA_SUCCESS;
  ASSERT_TRUE(streams_.Fence(context_, Answer(), &result));
  driver_.Done(kFirst);
  completion_.Poll(true);
  EXPECT_EQ(answer_.load(), kNotYet) << "the second still works";
  driver_.Done(kSecond, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Answered(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StreamsTest, AStreamThatIsIdleIsNoLongerActive) {
  StreamState stream = Stream(kFirst);
  streams_.MarkActive(stream);
  CUresult result = CUDA_SUCCESS;
  EXPECT_TRUE(streams_.Busy(context_, &result).empty());
  EXPECT_FALSE(stream.active);
  EXPECT_TRUE(context_.active.empty());
}

TEST_F(StreamsTest, AFenceWaitsForTheWorkOfAStreamThatWasDestroyed) {
  auto stream = std::make_optional(Stream(kFirst));
  streams_.MarkActive(*stream);
  driver_.Work(kFirst);
  streams_.Orphan(*stream);
  stream.reset();
  CUresult result = CUDA_SUCCESS;
  ASSERT_TRUE(streams_.Fence(context_, Answer(), &result));
  completion_.Poll(true);
  EXPECT_EQ(answer_.load(), kNotYet);
  driver_.Done(kFirst);
  EXPECT_EQ(Answered(), CUDA_SUCCESS);
}

TEST_F(StreamsTest, AFenceOfAStreamIsParkedUntilItsWorkIsDone) {
  StreamState stream = Stream(kFirst);
  driver_.Work(kFirst);
  CUresult result = CUDA_SUCCESS;
  ASSERT_TRUE(streams_.FenceStream(stream, Answer(), &result));
  driver_.Done(kFirst);
  EXPECT_EQ(Answered(), CUDA_SUCCESS);
}

TEST_F(StreamsTest, NobodyIsAskedAboutCapturesUntilOneBegins) {
  driver_.Capture(kFirst);
  EXPECT_FALSE(streams_.capturing(kFirst));
  streams_.NoteCapture(CallCapture::kBegins, CUDA_SUCCESS);
  EXPECT_TRUE(streams_.capturing(kFirst));
  EXPECT_FALSE(streams_.capturing(kSecond));
  streams_.NoteCapture(CallCapture::kEnds, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(streams_.captures(), 0) << "an invalid capture is over as well";
}

TEST_F(StreamsTest, AStreamAmidACaptureIsNotAsked) {
  StreamState stream = Stream(kFirst);
  streams_.MarkActive(stream);
  driver_.Capture(kFirst);
  streams_.NoteCapture(CallCapture::kBegins, CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  EXPECT_TRUE(streams_.Busy(context_, &result).empty());
  streams_.Orphan(stream);
  EXPECT_EQ(driver_.stream_queries(), 0);
}

TEST_F(StreamsTest, ACopyStartsAtOnceWhereNothingIsAheadOfIt) {
  StreamState stream = Stream(kFirst), beside = Stream(kSecond);
  EXPECT_TRUE(streams_.StartsAtOnce(stream));
  driver_.Work(CU_STREAM_LEGACY);
  EXPECT_FALSE(streams_.StartsAtOnce(stream)) << "it is ordered with the default stream";
  stream.blocking = false;
  EXPECT_TRUE(streams_.StartsAtOnce(stream));
  driver_.Done(CU_STREAM_LEGACY);
  driver_.Work(kSecond);
  streams_.MarkActive(beside);
  EXPECT_FALSE(streams_.StartsAtOnce(context_.legacy));
  EXPECT_TRUE(streams_.StartsAtOnce(stream));
}

TEST_F(StreamsTest, EachThreadHasOneDefaultStreamOfItsOwn) {
  CUresult result = CUDA_SUCCESS;
  StreamState* first = streams_.PerThread(context_, 1, &result);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(streams_.PerThread(context_, 1, &result), first);
  EXPECT_NE(streams_.PerThread(context_, 2, &result), first);
  EXPECT_TRUE(first->per_thread);
}

}  // namespace
}  // namespace farcall::server
