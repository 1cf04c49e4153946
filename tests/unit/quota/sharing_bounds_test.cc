// SPDX-License-Identifier: Apache-2.0
// The bounds that docs/internals/sharing.md states, on random tenants of the simulated device:
// shares, caps, work conservation, priority.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/sharing/trial.h"
#include "quota/scheduling/work_window.h"
#include "tests/unit/quota/properties.h"

namespace farcall::sharing {
namespace {

using quota::kMicrosecond;
using quota::kMillisecond;
using quota::kSecond;
using quota::Priority;

constexpr Ns kTick = kMillisecond;
const quota::WindowOptions kWindow;
const quota::SchedulerOptions kScheduler;

struct Tenants {
  Trial trial;
  Ns longest_ns = 0;  // kernel, jitter included
};

Tenants RandomTenants(int most) {
  Tenants tenants;
  int count = *rc::gen::inRange(2, most + 1);
  tenants.trial.seed = *rc::gen::arbitrary<uint32_t>();
  tenants.trial.length_ns = 120 * kMillisecond;
  tenants.trial.warm_up_ns = 60 * kMillisecond;  // costs are learnt
  tenants.trial.tick_ns = kTick;
  for (int i = 0; i < count; ++i) {
    TrialTenant tenant;
    Ns least = *rc::gen::inRange<Ns>(20 * kMicrosecond, kMillisecond);
    Ns longest = *rc::gen::inRange<Ns>(least, 8 * kMillisecond);
    auto kinds = *rc::gen::inRange<uint32_t>(1, 8);
    tenant.load.kinds = MixedKernels(least, longest, kinds, 100 * static_cast<uint64_t>(i) + 1);
    tenants.longest_ns = std::max(tenants.longest_ns, longest + longest / 10);
    tenants.trial.tenants.push_back(tenant);
  }
  return tenants;
}

// The most a tenant's lease can exceed its length: what was outstanding, which estimates put up to
// a quarter too low here, and the last kernel.
Ns Overhang(Ns longest_ns) {
  return kWindow.window_ns * 5 / 4 + longest_ns;
}

RC_GTEST_PROP(SharingBounds, SharesOfAnyTwoBackloggedTenants, ()) {
  Tenants tenants = RandomTenants(5);
  size_t count = tenants.trial.tenants.size();
  for (TrialTenant& tenant : tenants.trial.tenants)
    tenant.quota.share_milli = *rc::gen::inRange<uint32_t>(50, 1000 / static_cast<int>(count) + 1);
  TrialResult result = Run(tenants.trial);
  double longest = static_cast<double>(kScheduler.lease_ns + Overhang(tenants.longest_ns));
  std::vector<double> got(count), least(count * count), most(count * count);
  for (size_t tick = 0; tick < result.tenants[0].busy_ns.size(); ++tick) {
    for (size_t i = 0; i < count; ++i)
      got[i] += static_cast<double>(result.tenants[i].busy_ns[tick]);
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < i; ++j) {
        double w_i = tenants.trial.tenants[i].quota.share_milli / 1000.0;
        double w_j = tenants.trial.tenants[j].quota.share_milli / 1000.0;
        double difference = got[i] / w_i - got[j] / w_j;
        double& low = least[i * count + j];
        double& high = most[i * count + j];
        low = std::min(low, difference);
        high = std::max(high, difference);
        RC_ASSERT(high - low <= longest / w_i + longest / w_j);
      }
    }
  }
}

RC_GTEST_PROP(SharingBounds, CapInEveryWindow, ()) {
  Tenants tenants = RandomTenants(3);
  for (TrialTenant& tenant : tenants.trial.tenants)
    tenant.quota.limit_milli = *rc::gen::inRange<uint32_t>(50, 1000);
  TrialResult result = Run(tenants.trial);
  for (size_t i = 0; i < result.tenants.size(); ++i) {
    auto limit = static_cast<Ns>(tenants.trial.tenants[i].quota.limit_milli);
    Ns bound = quota::TokenBucket::DefaultBurst(static_cast<uint32_t>(limit)) +
               Overhang(tenants.longest_ns) + kTick;
    Ns over = 0, lowest = 0;  // in thousandths
    for (Ns busy : result.tenants[i].busy_ns) {
      over += busy * 1000 - kTick * limit;
      lowest = std::min(lowest, over);
      RC_ASSERT(over - lowest <= bound * 1000);
    }
  }
}

// Somebody without a cap always has work: the device idles for hand-overs only. (Of one class: each
// short visit of a higher one costs two hand-overs, as many as there are visits.)
RC_GTEST_PROP(SharingBounds, WorkIsNotLeftLying, ()) {
  Tenants tenants = RandomTenants(4);
  for (size_t i = 1; i < tenants.trial.tenants.size(); ++i) {
    TrialTenant& tenant = tenants.trial.tenants[i];
    tenant.quota.limit_milli = *rc::gen::inRange<uint32_t>(50, 1001);
    tenant.load.pieces = *rc::gen::inRange<uint32_t>(0, 30);
    tenant.load.pause_ns = *rc::gen::inRange<Ns>(2 * kMillisecond, 20 * kMillisecond);
  }
  TrialResult result = Run(tenants.trial);
  RC_ASSERT(result.busy_part > 0.75);
  RC_ASSERT(result.tenants[0].busy_ns.size() == 120u);
}

// Beside any lower work, a high tenant that wants all of the device gets all but the floors.
RC_GTEST_PROP(SharingBounds, HighPriorityKeepsTheDevice, ()) {
  Tenants tenants = RandomTenants(4);
  tenants.trial.tenants[0].quota.priority = Priority::kHigh;
  for (size_t i = 1; i < tenants.trial.tenants.size(); ++i)
    tenants.trial.tenants[i].quota.priority = static_cast<Priority>(*rc::gen::inRange(0, 2));
  TrialResult result = Run(tenants.trial);
  Ns high = 0, low = 0;
  for (size_t tick = 0; tick < result.tenants[0].busy_ns.size(); ++tick) {
    high += result.tenants[0].busy_ns[tick];
    for (size_t i = 1; i < result.tenants.size(); ++i) low += result.tenants[i].busy_ns[tick];
  }
  auto others = static_cast<Ns>(result.tenants.size() - 1);
  Ns floor = tenants.trial.length_ns * kScheduler.floor_milli / 1000;
  // The floors' buckets begin full, and each tenant's last kernel may exceed its own.
  RC_ASSERT(low <= floor + others * (quota::TokenBucket::DefaultBurst(kScheduler.floor_milli) +
                                     Overhang(tenants.longest_ns)));
  RC_ASSERT(high > 0);
}

}  // namespace
}  // namespace farcall::sharing
