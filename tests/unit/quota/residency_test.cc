// SPDX-License-Identifier: Apache-2.0
// Quanta that pay for their swaps, and thrashing.
#include "quota/memory/residency.h"

#include <gtest/gtest.h>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(Residency, CostsTheLargerWayAndTheMaps) {
  EXPECT_EQ(SwitchCost(40'000'000'000, 10'000'000'000, 0, 50, 0), 800 * kMillisecond);
  EXPECT_EQ(SwitchCost(0, 0, 100, 50, 20 * kMicrosecond), 2 * kMillisecond);
}

TEST(Residency, QuantaAreThoseOfTheFormula) {
  EXPECT_EQ(SwapQuantum(800 * kMillisecond, 0.05) / kMillisecond, 15200);
  EXPECT_EQ(SwapQuantum(2700 * kMillisecond, 0.10) / kMillisecond, 24300);
  EXPECT_EQ(SwapQuantum(1, 0.05), kSecond);
  EXPECT_EQ(SwapQuantum(100 * kSecond, 0.05), 60 * kSecond);
}

TEST(ThrashWatch, RotatesWhileDemandExceedsTheBudget) {
  ThrashWatch watch(10 * kGiB);
  watch.NoteDemand(9 * kGiB, 0);
  EXPECT_FALSE(watch.swaps());
  watch.NoteDemand(11 * kGiB, kSecond);
  EXPECT_TRUE(watch.swaps());
  watch.NoteDemand(9 * kGiB, 2 * kSecond);
  watch.NoteDemand(9 * kGiB, 100 * kSecond);
  EXPECT_TRUE(watch.swaps()) << "it fits barely";
  watch.NoteDemand(8 * kGiB, 101 * kSecond);
  watch.NoteDemand(8 * kGiB, 130 * kSecond);
  EXPECT_TRUE(watch.swaps());
  watch.NoteDemand(8 * kGiB, 131 * kSecond);
  EXPECT_FALSE(watch.swaps());
}

TEST(ThrashWatch, LengthensQuantaThenTakesNoMore) {
  ThrashWatch watch(kGiB);
  watch.NoteDemand(2 * kGiB, 0);
  EXPECT_EQ(watch.Quantum(kSecond / 10), 1900 * kMillisecond);
  Ns now = 0;
  for (int minute = 0; minute < 5; ++minute) {
    EXPECT_TRUE(watch.takes_more() || minute == 4);
    for (int i = 0; i < 60; ++i) {
      watch.NoteSwap(now, now + 300 * kMillisecond);
      now += kSecond;
    }
    watch.Judge(now);
  }
  EXPECT_EQ(watch.SwapMilli(now), 300u);
  EXPECT_EQ(watch.Quantum(kSecond / 10), 15200 * kMillisecond);
  EXPECT_FALSE(watch.takes_more());
}

TEST(ThrashWatch, LeavesQuantaAloneWhileSwapsAreFew) {
  ThrashWatch watch(kGiB);
  for (Ns now = 0; now < 600 * kSecond; now += kSecond) {
    watch.NoteSwap(now, now + 150 * kMillisecond);
    watch.Judge(now);
  }
  EXPECT_TRUE(watch.takes_more());
  EXPECT_EQ(watch.Quantum(kSecond), 19 * kSecond);
}

// Within the clamps, a quantum and its switch spend just the wanted part on switching.
RC_GTEST_PROP(Residency, QuantumKeepsTheOverhead, ()) {
  auto cost = *rc::gen::inRange<Ns>(kMicrosecond, 10 * kSecond);
  auto percent = *rc::gen::inRange(1, 50);
  Ns quantum = SwapQuantum(cost, percent / 100.0);
  RC_ASSERT(quantum >= kSecond && quantum <= 60 * kSecond);
  double part = static_cast<double>(cost) / static_cast<double>(cost + quantum);
  if (quantum < 60 * kSecond) RC_ASSERT(part <= percent / 100.0 + 1e-6);
}

}  // namespace
}  // namespace farcall::quota
