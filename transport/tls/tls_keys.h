// SPDX-License-Identifier: Apache-2.0
// What one end of a TLS 1.3 connection needs after the handshake, to be handed to the process that
// carries on (RFC 8446 7.2, 7.3). It opens this connection and no other: no private key is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/status.h"

namespace farcall {

enum class TlsSuite : uint16_t {
  kAes128GcmSha256 = 0x1301,
  kAes256GcmSha384 = 0x1302,
  kChacha20Poly1305Sha256 = 0x1303,
};

// One direction.
struct TlsTraffic {
  TlsSuite suite = TlsSuite::kAes128GcmSha256;
  std::vector<std::byte> secret;  // of a hash's size: 32 bytes, 48 with SHA-384
  uint64_t sequence = 0;          // of the next record
};

struct TlsKeys {
  TlsTraffic read, write;
};

inline constexpr size_t kMaxTlsKeysBytes = 256;

std::vector<std::byte> EncodeTlsKeys(const TlsKeys& keys);
//   Errors  kMalformed: a suite that we do not have, a secret of another size
Result<TlsKeys> DecodeTlsKeys(std::span<const std::byte> bytes);

// Bytes of a suite's secrets; 0: not one of ours.
size_t TlsSecretBytes(TlsSuite suite);

}  // namespace farcall
