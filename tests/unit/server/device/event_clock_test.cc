// SPDX-License-Identifier: Apache-2.0
// Device time by events, on a device of stubs whose clock the test moves: an event is a time.
#include "server/device/event_clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>

namespace farcall::server {
namespace {

using quota::kMillisecond;

struct Device {
  double now_ms = 0;
  std::map<CUevent, double> recorded;
  uintptr_t last = 0;
  int made = 0;
};
Device g_device;

CUresult MakeEvent(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(++g_device.last);
  ++g_device.made;
  return CUDA_SUCCESS;
}
CUresult RecordEvent(CUevent event, CUstream) {
  g_device.recorded[event] = g_device.now_ms;
  return CUDA_SUCCESS;
}
CUresult Elapsed(float* ms, CUevent from, CUevent to) {
  *ms = static_cast<float>(g_device.recorded.at(to) - g_device.recorded.at(from));
  return CUDA_SUCCESS;
}
CUresult MakeStream(CUstream* stream, unsigned) {
  *stream = reinterpret_cast<CUstream>(++g_device.last);
  return CUDA_SUCCESS;
}
CUresult SetCurrent(CUcontext) {
  return CUDA_SUCCESS;
}

class EventClockTest : public testing::Test {
 protected:
  EventClockTest() {
    g_device = {};
    api_.cuEventCreate = MakeEvent;
    api_.cuEventRecord = RecordEvent;
    api_.cuEventElapsedTime = Elapsed;
    api_.cuStreamCreate = MakeStream;
    api_.cuCtxSetCurrent = SetCurrent;
  }
  void Begin(double at_ms) {
    g_device.now_ms = at_ms;
    clock_.Begin(0, context_);
    clock_.Submitted(0);
  }
  std::shared_ptr<EventClock::Batch> Close() { return clock_.Close(0); }
  // A stream of the batch is done then.
  void End(EventClock::Batch& batch, double at_ms) {
    g_device.now_ms = at_ms;
    clock_.End(batch, context_, nullptr);
  }
  double UsedMs() { return static_cast<double>(clock_.used(0)) / kMillisecond; }

  CUcontext context_ = reinterpret_cast<CUcontext>(0x10);
  DriverApi api_;
  EventClock clock_{api_};
};

TEST_F(EventClockTest, CountsFromTheBeginToTheLastStreamsEnd) {
  ASSERT_TRUE(EventClock::CanMeasure(api_));
  Begin(10);
  Begin(11);  // the same batch
  auto batch = Close();
  End(*batch, 12);
  End(*batch, 15);
  End(*batch, 13);
  EXPECT_EQ(UsedMs(), 0);
  clock_.Reached(0, *batch);
  EXPECT_NEAR(UsedMs(), 5, 1e-3);
}

TEST_F(EventClockTest, PausesAreNotCounted) {
  for (double at : {0.0, 100.0, 200.0}) {
    Begin(at);
    auto batch = Close();
    End(*batch, at + 2);
    clock_.Reached(0, *batch);
  }
  EXPECT_NEAR(UsedMs(), 6, 1e-3);
}

TEST_F(EventClockTest, WhatIsQueuedBehindABatchCountsFromItsEnd) {
  Begin(0);
  auto first = Close();
  Begin(1);  // submitted while the first still runs
  auto second = Close();
  End(*first, 10);
  End(*second, 14);
  clock_.Reached(0, *first);
  EXPECT_NEAR(UsedMs(), 10, 1e-3);
  clock_.Reached(0, *second);
  EXPECT_NEAR(UsedMs(), 14, 1e-3);
}

TEST_F(EventClockTest, ABatchThatDidNotGoIsNone) {
  g_device.now_ms = 0;
  clock_.Begin(0, context_);
  clock_.Cancel(0);
  Begin(50);
  clock_.Cancel(0);  // too late: something went
  auto batch = Close();
  End(*batch, 51);
  clock_.Reached(0, *batch);
  EXPECT_NEAR(UsedMs(), 1, 1e-3);
}

TEST_F(EventClockTest, UsesItsEventsAgain) {
  for (int i = 0; i < 1000; ++i) {
    Begin(i * 10);
    auto batch = Close();
    End(*batch, i * 10 + 1);
    End(*batch, i * 10 + 2);
    clock_.Reached(0, *batch);
  }
  EXPECT_LE(g_device.made, 8);
  EXPECT_NEAR(UsedMs(), 2000, 0.1);
}

TEST_F(EventClockTest, OfAContextThatIsGoneNothingIsAsked) {
  Begin(0);
  auto batch = Close();
  End(*batch, 5);
  clock_.ForgetContext(context_);
  g_device.recorded.clear();  // Elapsed would throw
  clock_.Reached(0, *batch);
  EXPECT_EQ(UsedMs(), 0);
}

}  // namespace
}  // namespace farcall::server
