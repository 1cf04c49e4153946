// SPDX-License-Identifier: Apache-2.0
// Leases: one holder, whose turn is next, caps, classes, what is told of each.
#include "quota/scheduling/device_scheduler.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

constexpr ComputeQuota kPlain;
constexpr ComputeQuota kHigh{0, 1000, Priority::kHigh};
constexpr ComputeQuota kLow{0, 1000, Priority::kLow};

TEST(DeviceScheduler, GivesTheDeviceToOneAtATime) {
  DeviceScheduler scheduler;
  scheduler.Add(1, kPlain, 0);
  scheduler.Add(2, kPlain, 0);
  EXPECT_FALSE(scheduler.Next(0)) << "nobody wants it";
  scheduler.Want(1, 0);
  scheduler.Want(2, 0);
  auto lease = scheduler.Next(0);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->flow, 1u);
  EXPECT_FALSE(scheduler.Next(0));
  scheduler.Charge(1, 4 * kMillisecond, 4 * kMillisecond);
  scheduler.Release(4 * kMillisecond, true);
  EXPECT_EQ(scheduler.Next(4 * kMillisecond)->flow, 2u);
}

TEST(DeviceScheduler, LendsForLongerWhereNobodyWaits) {
  DeviceScheduler scheduler;
  scheduler.Add(1, kPlain, 0);
  scheduler.Add(2, kPlain, 0);
  scheduler.Want(1, 0);
  EXPECT_EQ(scheduler.Next(0)->budget_ns, 20 * kMillisecond);
  scheduler.Want(2, kMillisecond);
  EXPECT_EQ(scheduler.LimitOfHolder(kMillisecond), 4 * kMillisecond) << "cut short";
  scheduler.Charge(1, 5 * kMillisecond, 5 * kMillisecond);
  EXPECT_EQ(scheduler.LimitOfHolder(5 * kMillisecond), 0);
  scheduler.Release(5 * kMillisecond, true);
  EXPECT_EQ(scheduler.Next(5 * kMillisecond)->budget_ns, 4 * kMillisecond);
}

TEST(DeviceScheduler, LendsWhatIsIdleAndTakesItBackWithinALease) {
  DeviceScheduler scheduler;
  scheduler.Add(1, {100, 1000, Priority::kNormal}, 0);
  scheduler.Add(2, {900, 1000, Priority::kNormal}, 0);
  scheduler.Want(1, 0);
  ASSERT_TRUE(scheduler.Next(0));
  EXPECT_GT(scheduler.Extend(kMillisecond), 0) << "alone it goes on";
  EXPECT_EQ(scheduler.LimitOfHolder(kMillisecond), DeviceScheduler::kNever);
  scheduler.Charge(1, 3 * kMillisecond, 3 * kMillisecond);
  scheduler.Want(2, 3 * kMillisecond);
  EXPECT_EQ(scheduler.LimitOfHolder(3 * kMillisecond), kMillisecond);
  EXPECT_EQ(scheduler.Extend(3 * kMillisecond), 0);
}

TEST(DeviceScheduler, StopsAtTheLimitUntilTheDebtIsRepaid) {
  DeviceScheduler scheduler;
  scheduler.Add(1, {0, 100, Priority::kNormal}, 0);
  scheduler.Want(1, 0);
  auto lease = scheduler.Next(0);
  ASSERT_TRUE(lease);
  EXPECT_LE(lease->budget_ns, 10 * kMillisecond);
  scheduler.Charge(1, 20 * kMillisecond, 20 * kMillisecond);
  EXPECT_EQ(scheduler.Extend(20 * kMillisecond), 0);
  scheduler.Release(20 * kMillisecond, true);
  EXPECT_FALSE(scheduler.Next(20 * kMillisecond));
  VgpuStatus status = scheduler.Status(1, 20 * kMillisecond);
  EXPECT_EQ(status.waits_for, WaitReason::kCap);
  EXPECT_EQ(status.debt_ns, 10 * kMillisecond);
  Ns wake = scheduler.WakeAt(20 * kMillisecond);
  EXPECT_FALSE(scheduler.Next(wake - kMicrosecond));
  EXPECT_TRUE(scheduler.Next(wake));
}

TEST(DeviceScheduler, PutsHigherClassesFirst) {
  DeviceScheduler scheduler({.floor_milli = 0});
  scheduler.Add(1, kLow, 0);
  scheduler.Add(2, kHigh, 0);
  scheduler.Want(1, 0);
  ASSERT_EQ(scheduler.Next(0)->flow, 1u);
  scheduler.Want(2, kMicrosecond);
  EXPECT_EQ(scheduler.LimitOfHolder(kMicrosecond), 0) << "at the next batch";
  scheduler.Release(2 * kMicrosecond, true);
  EXPECT_EQ(scheduler.Next(2 * kMicrosecond)->flow, 2u);
  EXPECT_EQ(scheduler.Status(1, 3 * kMicrosecond).waits_for, WaitReason::kPriority);
  EXPECT_EQ(scheduler.LimitOfHolder(3 * kMicrosecond), DeviceScheduler::kNever);
}

TEST(DeviceScheduler, KeepsLongPiecesOutOfShortPauses) {
  DeviceScheduler scheduler({.floor_milli = 0});
  scheduler.Add(1, kLow, 0);
  scheduler.Add(2, kHigh, 0);
  Ns now = 0;
  auto high_runs = [&] {  // 8 ms, then 4 ms of pause
    scheduler.Want(2, now);
    ASSERT_EQ(scheduler.Next(now)->flow, 2u);
    now += 8 * kMillisecond;
    scheduler.Charge(2, 8 * kMillisecond, now);
    scheduler.Release(now, false);
  };
  for (int i = 0; i < 30; ++i) {
    high_runs();
    now += 4 * kMillisecond;
  }
  high_runs();
  scheduler.Want(1, now, 6 * kMillisecond);
  EXPECT_FALSE(scheduler.Next(now)) << "6 ms do not fit 4";
  EXPECT_EQ(scheduler.Status(1, now).waits_for, WaitReason::kPriority);
  scheduler.Leave(1, now);
  // Most of them end sooner than the longest is expected to.
  scheduler.Want(1, now, 4600 * kMicrosecond);
  EXPECT_TRUE(scheduler.Next(now));
}

TEST(DeviceScheduler, LendsOfAPauseWhatTakesSoLongByTheClock) {
  DeviceScheduler scheduler({.floor_milli = 0});
  scheduler.Add(1, kLow, 0);
  scheduler.Add(2, kHigh, 0);
  Ns now = 0;
  auto in_a_pause = [&](uint32_t pace_milli) {
    for (int i = 0; i < 60; ++i) {  // nobody is kept waiting: low work gets the most
      scheduler.Want(2, now);
      EXPECT_EQ(scheduler.Next(now)->flow, 2u);
      now += 8 * kMillisecond;
      scheduler.Charge(2, 8 * kMillisecond, now);
      scheduler.Release(now, false);
      now += 2 * kMillisecond;
    }
    scheduler.Want(2, now);
    scheduler.Next(now);
    scheduler.Release(now, false);
    scheduler.Want(1, now, 100 * kMicrosecond, pace_milli);
    Ns budget = scheduler.Next(now)->budget_ns;
    scheduler.Release(now, false);
    return budget;
  };
  Ns whole = in_a_pause(1000);
  EXPECT_GT(whole, kMillisecond);
  EXPECT_NEAR(static_cast<double>(in_a_pause(2000)), static_cast<double>(whole) / 2, 1e5)
      << "each millisecond of it takes two";
}

TEST(DeviceScheduler, LeavesLowerClassesTheirFloor) {
  DeviceScheduler scheduler;
  scheduler.Add(1, kLow, 0);
  scheduler.Add(2, kHigh, 0);
  scheduler.Want(1, 0);
  scheduler.Want(2, 0);
  Ns now = 0;
  for (int i = 0; i < 5000; ++i) {
    auto lease = scheduler.Next(now);
    ASSERT_TRUE(lease);
    now += lease->budget_ns;
    scheduler.Charge(lease->flow, lease->budget_ns, now);
    scheduler.Release(now, true);
  }
  double low = static_cast<double>(scheduler.Status(1, now).gpu_time_ns) / static_cast<double>(now);
  EXPECT_NEAR(low, 0.05, 0.005);
}

TEST(DeviceScheduler, KeepsAPromisedShareFromAHigherClass) {
  DeviceScheduler scheduler;
  scheduler.Add(1, {300, 1000, Priority::kNormal}, 0);
  scheduler.Add(2, kHigh, 0);
  scheduler.Want(1, 0);
  scheduler.Want(2, 0);
  Ns now = 0;
  for (int i = 0; i < 5000; ++i) {
    auto lease = scheduler.Next(now);
    now += lease->budget_ns;
    scheduler.Charge(lease->flow, lease->budget_ns, now);
    scheduler.Release(now, true);
  }
  double got = static_cast<double>(scheduler.Status(1, now).gpu_time_ns) / static_cast<double>(now);
  EXPECT_NEAR(got, 0.3, 0.02);
}

TEST(DeviceScheduler, TellsWhatIsWantedAndGot) {
  DeviceScheduler scheduler;
  scheduler.Add(1, {250, 1000, Priority::kNormal}, 0);
  scheduler.Add(2, {250, 1000, Priority::kNormal}, 0);
  scheduler.Add(3, kPlain, 0);
  scheduler.Want(1, 0);
  scheduler.Want(2, 0);
  Ns now = 0;
  for (int i = 0; i < 1000; ++i) {
    auto lease = scheduler.Next(now);
    now += lease->budget_ns;
    scheduler.Charge(lease->flow, lease->budget_ns, now);
    scheduler.Release(now, true);
  }
  VgpuStatus one = scheduler.Status(1, now);
  EXPECT_EQ(one.share_wanted_milli, 500u) << "the third wants nothing now";
  EXPECT_NEAR(one.share_got_milli, 500, 10);
  EXPECT_EQ(one.gpu_time_ns + scheduler.Status(2, now).gpu_time_ns, now);
  EXPECT_EQ(scheduler.ShareLeft(), 500u);
  EXPECT_EQ(scheduler.ShareLeft(1), 750u);
}

TEST(DeviceScheduler, ChangesARunningQuota) {
  DeviceScheduler scheduler;
  scheduler.Add(1, kPlain, 0);
  scheduler.Want(1, 0);
  scheduler.Change(1, {0, 100, Priority::kLow}, 0);
  ASSERT_TRUE(scheduler.Next(0));
  scheduler.Charge(1, 50 * kMillisecond, 0);
  EXPECT_EQ(scheduler.Extend(0), 0);
  scheduler.Change(1, kPlain, 0);
  EXPECT_GT(scheduler.Extend(0), 0);
}

TEST(DeviceScheduler, GivesOnWhatALeaverHeld) {
  DeviceScheduler scheduler;
  scheduler.Add(1, kPlain, 0);
  scheduler.Add(2, kPlain, 0);
  scheduler.Want(1, 0);
  scheduler.Want(2, 0);
  ASSERT_EQ(scheduler.Next(0)->flow, 1u);
  scheduler.Remove(1, 1);
  EXPECT_EQ(scheduler.Next(1)->flow, 2u);
  scheduler.Charge(1, 100, 1);  // a late word of who is gone
  scheduler.Remove(1, 1);
}

// Any calls in any order that a server may make: one holder at most, who wants it and is under its
// cap; someone with work is never left without a time to wake up.
RC_GTEST_PROP(DeviceScheduler, SurvivesAnyOrderOfCalls, ()) {
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  auto steps = *rc::gen::inRange(1, 200);
  DeviceScheduler scheduler;
  std::map<DeviceScheduler::Flow, bool> wants;
  Ns now = 0;
  auto random_quota = [&] {
    ComputeQuota quota;
    quota.share_milli = static_cast<uint32_t>(random() % 2) * (1 + random() % 200);
    quota.limit_milli = random() % 2 == 0 ? 1000 : 200 + static_cast<uint32_t>(random() % 800);
    quota.priority = static_cast<Priority>(random() % 3);
    return quota;
  };
  for (int step = 0; step < steps; ++step) {
    now += static_cast<Ns>(random() % 5000000);
    DeviceScheduler::Flow flow = random() % 6;
    bool known = wants.count(flow) != 0;
    switch (random() % 8) {
      case 0:
        if (!known) {
          scheduler.Add(flow, random_quota(), now);
          wants[flow] = false;
        }
        break;
      case 1:
        scheduler.Remove(flow, now);
        wants.erase(flow);
        break;
      case 2:
      case 3:
        if (known) {
          scheduler.Want(flow, now, static_cast<Ns>(random() % 5000000));
          wants[flow] = true;
        }
        break;
      case 4:
        if (known) scheduler.Change(flow, random_quota(), now);
        break;
      case 5:
        if (auto holder = scheduler.holder()) {
          scheduler.Charge(*holder, static_cast<Ns>(random() % 10000000), now);
          bool more = random() % 2 == 0;
          wants[*holder] = more;
          scheduler.Release(now, more);
        }
        break;
      case 6:
        if (known && scheduler.holder() != flow) {
          scheduler.Leave(flow, now);
          wants[flow] = false;
        }
        break;
      default:
        scheduler.Extend(now);
        scheduler.LimitOfHolder(now);
        break;
    }
    bool was_held = scheduler.holder().has_value();
    auto lease = scheduler.Next(now);
    RC_ASSERT(!(was_held && lease));
    if (lease) {
      RC_ASSERT(wants.at(lease->flow));
      RC_ASSERT(lease->budget_ns > 0);
      RC_ASSERT(scheduler.Status(lease->flow, now).debt_ns == 0);
    }
    bool waits = false;
    for (auto [each, wanting] : wants) {
      waits = waits || (wanting && scheduler.holder() != each);
      RC_ASSERT(scheduler.Status(each, now).share_wanted_milli <= 1000u);
    }
    if (waits && !scheduler.holder()) {
      Ns wake = scheduler.WakeAt(now);
      RC_ASSERT(wake > now);
      RC_ASSERT(wake < now + 3600 * kSecond);
    }
  }
}

}  // namespace
}  // namespace farcall::quota
