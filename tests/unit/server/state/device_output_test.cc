// SPDX-License-Identifier: Apache-2.0
// What device code prints, on a driver of stubs and a pipe in the place of the worker's stdout.
#include "server/state/queues/device_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "server/device/current_context.h"

namespace farcall::server {
namespace {

int g_streams, g_stream_waits, g_context_waits, g_printer;
CUresult g_stream_result;

class DeviceOutputTest : public testing::Test {
 protected:
  DeviceOutputTest() {
    g_streams = g_stream_waits = g_context_waits = 0;
    g_stream_result = CUDA_SUCCESS;
    g_printer = ends_[1];
    api_.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
    api_.cuStreamCreate = [](CUstream* stream, unsigned) {
      *stream = reinterpret_cast<CUstream>(static_cast<intptr_t>(++g_streams));
      return g_stream_result;
    };
    // A driver writes what its buffer holds.
    api_.cuStreamSynchronize = [](CUstream) {
      ++g_stream_waits;
      return write(g_printer, "kernel", 6) == 6 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    };
    api_.cuCtxSynchronize = [] {
      ++g_context_waits;
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    };
    CurrentContext::Forget();
  }
  ~DeviceOutputTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  CUcontext context_ = reinterpret_cast<CUcontext>(8);
  std::array<int, 2> ends_ = [] {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
    return ends;
  }();
  DriverApi api_;
  std::string sent_;
  DeviceOutput output_{
      api_, {.output = ends_[0]}, [this](std::span<const std::byte> printed, bool is_error) {
        EXPECT_FALSE(is_error);
        sent_.append(reinterpret_cast<const char*>(printed.data()), printed.size());
      }};
};

TEST_F(DeviceOutputTest, SendsWhatThereIsAndWaitsForNothing) {
  output_.Drain();
  EXPECT_EQ(sent_, "");
  const std::string text(20000, 'x');  // more than is read at once
  ASSERT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  output_.Drain();
  EXPECT_EQ(sent_, text);
}

TEST_F(DeviceOutputTest, TellsTheStandardErrorApart) {
  std::string errors;
  DeviceOutput both{
      api_, {.error = ends_[0]}, [&](std::span<const std::byte> printed, bool is_error) {
        EXPECT_TRUE(is_error);
        errors.append(reinterpret_cast<const char*>(printed.data()), printed.size());
      }};
  ASSERT_EQ(write(ends_[1], "assertion", 9), 9);
  both.Drain();
  EXPECT_EQ(errors, "assertion");
}

TEST_F(DeviceOutputTest, AsksTheDriverOnlyWhereCodePrints) {
  output_.FlushPrintf(context_);
  EXPECT_EQ(g_stream_waits, 0);
  output_.NotePrintf();
  output_.FlushPrintf(context_);
  EXPECT_EQ(sent_, "kernel");
  output_.FlushPrintf(context_);
  EXPECT_EQ(g_streams, 1) << "a context has one stream for this";
  EXPECT_EQ(g_stream_waits, 2);
  output_.ForgetContext(context_);
  output_.FlushPrintf(context_);
  EXPECT_EQ(g_streams, 2);
}

TEST_F(DeviceOutputTest, WaitsForABrokenContextWhereNoStreamCanBeMade) {
  output_.NotePrintf();
  g_stream_result = CUDA_ERROR_OUT_OF_MEMORY;
  output_.FlushPrintf(context_);
  EXPECT_EQ(g_context_waits, 0) << "work may be under way";
  g_stream_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  output_.FlushPrintf(context_);
  EXPECT_EQ(g_context_waits, 1);
}

}  // namespace
}  // namespace farcall::server
