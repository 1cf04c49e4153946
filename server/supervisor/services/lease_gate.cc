// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/lease_gate.h"

#include <utility>

namespace farcall::server {

namespace {

constexpr size_t kMaxUsedLeases = 100'000;

}  // namespace

void LeaseGate::SetPool(std::string pool, const LeasePublicKey& key) {
  pool_ = std::move(pool);
  key_ = key;
}

Result<Lease> LeaseGate::Check(const std::string& token, int64_t now) {
  if (token.empty())
    return Status(Code::kRefused,
                  "this server belongs to a pool: connect to the pool's pool:// URL");
  if (!key_) return Status(Code::kRefused, "this server has not heard from its pool yet");
  Result<Lease> lease = ReadLease(token, *key_);
  if (!lease.ok()) return lease;
  FARCALL_TRY(CheckLease(*lease, pool_, host_, instance_, now));
  std::erase_if(used_, [&](const auto& used) { return used.second + kLeaseSkewSeconds < now; });
  if (used_.count(lease->id) != 0)
    return Status(Code::kRefused, "the lease has been shown before: it opens one session");
  if (used_.size() >= kMaxUsedLeases)
    return Status(Code::kRefused, "too many leases within a minute; try again");
  return lease;
}

}  // namespace farcall::server
