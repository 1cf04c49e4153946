// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pool/core/sim_host.h"

namespace farcall::pool {

namespace {

constexpr quota::Ns kNsPerMs = 1'000'000;

}  // namespace

quota::Ns SimHost::NowAt(Ms now) const {
  return static_cast<quota::Ns>(static_cast<double>(now) * clock) * kNsPerMs;
}

HostReport SimHost::Report(Ms now) {
  ledger->Beat(++beat, NowAt(now));
  HostReport report;
  report.host = name;
  report.incarnation = incarnation;
  report.beat = beat;
  report.park_bytes = bounds.park_bytes;
  report.oversubscribe_milli = bounds.oversubscribe_milli;
  for (uint64_t bytes : told_bytes) {
    Gpu gpu;
    gpu.memory_bytes = bytes;
    gpu.name = report.gpus.size() % 2 == 0 ? "even" : "odd";
    report.gpus.push_back(gpu);
  }
  for (const auto& [id, held] : ledger->held())
    report.claims.push_back({id, held.grant.epoch, held.sessions, held.is_ending, "",
                             held.grant.quota_revision, held.refused_revision, held.change_refused,
                             held.grant.devices, held.grant.memory_bytes, held.grant.share_milli,
                             held.grant.limit_milli, held.grant.priority, held.grant.seats,
                             held.grant.net_bytes_per_s, held.is_parked, held.park_refused});
  for (const auto& [id, refusal] : ledger->refused()) {
    ReportedClaim refused;
    refused.claim = id;
    refused.epoch = refusal.epoch;
    refused.refused = refusal.why;
    report.claims.push_back(refused);
  }
  return report;
}

void SimHost::EndSessions(const std::vector<std::string>& ended) {
  for (const std::string& id : ended)
    for (size_t i = sessions.size(); i-- > 0;)
      if (sessions[i].first == id) {
        ledger->CloseSeat(id);
        sessions.erase(sessions.begin() + static_cast<long>(i));
      }
}

std::vector<quota::ClaimGrant> GrantsOf(const Answer& answer) {
  std::vector<quota::ClaimGrant> grants;
  for (const Grant& grant : answer.grants)
    grants.push_back({grant.claim, grant.epoch, grant.devices, grant.memory_bytes,
                      grant.share_milli, grant.limit_milli, grant.net_bytes_per_s, grant.priority,
                      grant.seats, grant.hold_ms * kNsPerMs, grant.quota_revision,
                      grant.is_parked});
  return grants;
}

}  // namespace farcall::pool
