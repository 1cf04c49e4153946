// SPDX-License-Identifier: Apache-2.0
// That no claim waits for ever behind younger ones; under CTest for 2,500 cases (CMakeLists.txt).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "pool/core/core.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

// One host that small claims keep full; a claim that needs more than is ever free at once.
RC_GTEST_PROP(PoolProperty, a_large_claim_starves_behind_no_stream_of_small_ones, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  auto below = [&](uint64_t n) { return random() % n; };
  Timing timing;
  timing.settle = 0;
  Core core(timing);
  core.Load({}, {}, 0);
  Ms now = 1;
  uint64_t beat = 0, gpus = 1 + below(3), large_gib = 5 + below(12);
  std::vector<Grant> granted;
  auto hear = [&] {
    HostReport report;
    report.host = "h";
    report.incarnation = 1;
    report.beat = ++beat;
    report.gpus.resize(gpus);
    for (Gpu& gpu : report.gpus) gpu.memory_bytes = 16 * kGiB;
    for (const Grant& grant : granted) {
      ReportedClaim claim;
      claim.claim = grant.claim;
      claim.epoch = grant.epoch;
      report.claims.push_back(claim);
    }
    granted = core.Apply(report, now).answer->grants;
    RC_ASSERT(core.Broken() == "");
  };
  constexpr Ms kLife = 40'000;
  hear();
  uint64_t made = 0;
  std::map<std::string, Ms> ends;
  auto request = [&](const std::string& id, uint64_t gib, uint32_t share) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.share_milli = share;
    core.Apply(request, now);
  };
  // Enough of them that each place is taken again at once.
  auto fill = [&](size_t waiting) {
    while (core.pending() < waiting)
      request("s" + std::to_string(++made), 1 + below(4), static_cast<uint32_t>(below(3) * 100));
    for (const auto& [id, claim] : core.claims())
      if (HoldsCapacity(claim.state) && ends.count(id) == 0)
        ends[id] = now + 5000 + static_cast<Ms>(below(kLife - 5000));
  };
  fill(1);
  request("large", large_gib, 0);
  Ms asked = now;
  while (core.Find("large")->state == ClaimState::kPending) {
    // One is before it, and may have to wait for another's end as well.
    RC_ASSERT(now - asked < timing.aging + 2 * kLife + 20'000);
    now += 1000;
    for (auto at = ends.begin(); at != ends.end();) {
      if (now < at->second) {
        ++at;
        continue;
      }
      core.Apply(ReleaseClaim{at->first, "done", {}}, now);
      at = ends.erase(at);
    }
    hear(), hear();
    core.Apply(Tick{}, now);
    fill(20);
    hear();
  }
}

}  // namespace
}  // namespace farcall::pool
