// SPDX-License-Identifier: Apache-2.0
// What a pool gives a client to show to a host: PASETO v4.public, an Ed25519 signature over a few
// fields, which the host checks without asking anybody.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall {

using LeasePublicKey = std::array<uint8_t, 32>;
using LeaseSecretKey = std::array<uint8_t, 64>;

inline constexpr int64_t kLeaseSeconds = 60;
inline constexpr size_t kMaxLeaseBytes = 4096;

struct Lease {
  std::string pool, claim, host;
  uint64_t epoch = 0;
  // Of the host's server, which knows what leases it has seen: its next start takes none of them.
  uint64_t instance = 0;
  std::string id;          // of this token: it opens one session
  int64_t not_before = 0;  // seconds since 1970
  int64_t expires = 0;
};

LeaseSecretKey NewLeaseKey();
LeasePublicKey PublicHalf(const LeaseSecretKey& key);

std::string SignLease(const Lease& lease, const LeaseSecretKey& key);
// The fields of a token that is signed by `key`, of any time and host.
//   Errors  kRefused (not such a token, or signed by another)
Result<Lease> ReadLease(std::string_view token, const LeasePublicKey& key);
// Whether it opens a session at `host` now. Clocks may differ by `kLeaseSkewSeconds`.
//   Errors  kRefused, one line
Status CheckLease(const Lease& lease, std::string_view pool, std::string_view host,
                  uint64_t instance, int64_t now);
inline constexpr int64_t kLeaseSkewSeconds = 5;

// PASETO v4.public itself, without footer and implicit part.
std::string SignPaseto(std::string_view message, const LeaseSecretKey& key);
Result<std::string> OpenPaseto(std::string_view token, const LeasePublicKey& key);

}  // namespace farcall
