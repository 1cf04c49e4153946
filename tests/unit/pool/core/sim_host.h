// SPDX-License-Identifier: Apache-2.0
// A host of property_test.cc's world: its ledger, its clock, and the programs that run there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pool/core/core.h"
#include "quota/claim_ledger.h"

namespace farcall::pool {

struct SimHost {
  std::string name;
  uint64_t incarnation = 1, beat = 0;
  double clock = 1;                  // its milliseconds per one of ours
  std::vector<uint64_t> told_bytes;  // its inventory, which may say more than there is
  std::vector<uint64_t> real_bytes;
  std::unique_ptr<quota::ClaimLedger> ledger;
  std::vector<std::pair<std::string, uint64_t>> sessions;  // (claim, epoch)
  std::vector<std::string> changing, parking;
  quota::ClaimBounds bounds;
  uint64_t highest_term = 0;

  // By its clock, when it is `now` by ours.
  quota::Ns NowAt(Ms now) const;
  // Its next heartbeat.
  HostReport Report(Ms now);
  // Those of claims that have ended.
  void EndSessions(const std::vector<std::string>& ended);
};

std::vector<quota::ClaimGrant> GrantsOf(const Answer& answer);

}  // namespace farcall::pool
