// SPDX-License-Identifier: Apache-2.0
// The leases that a pool's clients show to a host: each opens one session, at this start of this
// host's server, in its time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/handshake/lease_token.h"

namespace farcall::server {

class LeaseGate {
 public:
  // `host`: this one's name in the pool; `instance`: of this start of its server.
  LeaseGate(std::string host, uint64_t instance) : host_(std::move(host)), instance_(instance) {}

  // The pool's name and public key, as its answers have them.
  void SetPool(std::string pool, const LeasePublicKey& key);

  // Whether the lease opens a session at `now`, in seconds since 1970.   Errors  kRefused, one line
  Result<Lease> Check(const std::string& token, int64_t now);
  // It has opened one: it opens no other.
  void Use(const Lease& lease) { used_[lease.id] = lease.expires; }
  size_t used() const { return used_.size(); }

 private:
  const std::string host_;
  const uint64_t instance_;
  std::string pool_;
  std::optional<LeasePublicKey> key_;
  std::map<std::string, int64_t> used_;  // ids of leases -> when they expire
};

}  // namespace farcall::server
