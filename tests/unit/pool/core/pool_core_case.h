// SPDX-License-Identifier: Apache-2.0
// A pool's core with a host that reports, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pool/core/core.h"

namespace farcall::pool {

inline constexpr uint64_t kGiB = 1ull << 30;

// A pool of one host with one GPU of 16 GiB, past its settling.
class PoolCore : public testing::Test {
 protected:
  PoolCore() {
    core_.Load({}, {}, 0);
    now_ = 20'000;
    Beat();
  }

  Effects Do(const Event& event) {
    Effects effects = core_.Apply(event, now_);
    EXPECT_EQ(core_.Broken(), "");
    return effects;
  }
  // The host accepts what it was granted, with so many sessions of each claim.
  Effects Beat(uint32_t sessions = 0, const std::string& name = "h") {
    HostReport report;
    report.host = name;
    report.incarnation = incarnation_;
    report.is_draining = is_ending_;
    report.beat = ++beat_;
    report.oversubscribe_milli = lends_milli_;
    for (const std::string& model :
         models_.count(name) == 0 ? std::vector<std::string>{"Model A"} : models_.at(name)) {
      Gpu gpu;
      gpu.name = model;
      gpu.memory_bytes = 16 * kGiB;
      report.gpus.push_back(gpu);
    }
    for (const Grant& grant : granted_[name]) {
      ReportedClaim claim;
      claim.claim = grant.claim;
      claim.epoch = grant.epoch;
      claim.sessions = sessions;
      if (full_for_.contains(grant.claim)) claim.refused = "no room";
      claim.quota_revision = refuses_ ? in_force_[grant.claim] : grant.quota_revision;
      if (refuses_ && claim.quota_revision != grant.quota_revision) {
        claim.refused_revision = grant.quota_revision;
        claim.change_refused = "it holds more";
      }
      in_force_[grant.claim] = claim.quota_revision;
      report.claims.push_back(claim);
    }
    Effects effects = Do(report);
    if (effects.answer) granted_[name] = effects.answer->grants;
    return effects;
  }
  Effects Request(const std::string& id, uint64_t gib, const std::string& key = "") {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.on_disconnect_ms = 30'000;
    request.idempotency_key = key;
    return Do(request);
  }
  ClaimState State(const std::string& id) { return core_.Find(id)->state; }
  void Wait(Ms ms) {
    now_ += ms;
    Do(Tick{});
  }

  Core core_;
  Ms now_ = 0;
  uint64_t beat_ = 0, incarnation_ = 1;
  uint32_t lends_milli_ = 1000;                             // of hosts' GPUs' memory
  bool is_ending_ = false;                                  // as its server tells
  std::map<std::string, std::vector<std::string>> models_;  // of hosts; else one "Model A"
  std::map<std::string, std::vector<Grant>> granted_;
  bool refuses_ = false;  // changes
  std::set<std::string> full_for_;
  std::map<std::string, uint64_t> in_force_;
};

}  // namespace farcall::pool
