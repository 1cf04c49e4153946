// SPDX-License-Identifier: Apache-2.0
// How low work gives way to high work.
#include "quota/scheduling/background_window.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

TEST(BackgroundWindow, ShrinksWhenHigherWorkIsSlowedDown) {
  BackgroundWindow window;
  window.NoteActive(0);
  EXPECT_EQ(window.window_ns(), BackgroundWindow::kFirst);
  window.NoteWait(5 * kMillisecond);
  window.NoteRun(100 * kMillisecond, 60 * kMillisecond);
  EXPECT_EQ(window.window_ns(), 670 * kMicrosecond);
  window.NoteWait(20 * kMillisecond);
  window.NoteRun(100 * kMillisecond, 120 * kMillisecond);
  EXPECT_EQ(window.window_ns(), BackgroundWindow::kLeast);
}

TEST(BackgroundWindow, GrowsBackSlowly) {
  BackgroundWindow window;
  Ns now = 0;
  window.NoteActive(now);
  for (int i = 0; i < 100; ++i) {
    window.NoteActive(now += 50 * kMillisecond);
    window.NoteRun(40 * kMillisecond, now);
  }
  EXPECT_EQ(window.window_ns(), BackgroundWindow::kMax);
}

TEST(BackgroundWindow, ForgetsHigherWorkThatHasGone) {
  BackgroundWindow window;
  EXPECT_FALSE(window.beside_higher(0));
  window.NoteActive(0);
  EXPECT_TRUE(window.beside_higher(99 * kMillisecond));
  EXPECT_FALSE(window.beside_higher(101 * kMillisecond));
}

TEST(GapPredictor, KnowsHowLongPausesAre) {
  GapPredictor gaps;
  Ns now = 0;
  for (int i = 0; i < 50; ++i) {
    gaps.NoteBusy(now);
    gaps.NoteIdle(now += 10 * kMillisecond);
    now += 6 * kMillisecond;
  }
  gaps.NoteBusy(now);
  EXPECT_EQ(gaps.LeftOfGap(now), 0);
  gaps.NoteIdle(now);
  EXPECT_NEAR(static_cast<double>(gaps.LeftOfGap(now + kMillisecond)), 5e6, 1e4);
  EXPECT_EQ(gaps.LeftOfGap(now + 20 * kMillisecond), 0);
}

RC_GTEST_PROP(BackgroundWindow, StaysWithinItsEnds, ()) {
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  BackgroundWindow window;
  Ns now = 0;
  for (int i = 0; i < 100; ++i) {
    now += static_cast<Ns>(random() % 100000000);
    window.NoteActive(now);
    window.NoteWait(static_cast<Ns>(random() % 20000000));
    window.NoteRun(static_cast<Ns>(random() % 100000000), now);
    RC_ASSERT(window.window_ns() >= BackgroundWindow::kLeast);
    RC_ASSERT(window.window_ns() <= BackgroundWindow::kMax);
  }
}

}  // namespace
}  // namespace farcall::quota
