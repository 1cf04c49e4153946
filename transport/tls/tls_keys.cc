// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/tls_keys.h"

#include "proto/codec.h"

namespace farcall {

namespace {

void Put(Builder* out, const TlsTraffic& traffic) {
  out->Put<uint16_t>(static_cast<uint16_t>(traffic.suite));
  out->Put<uint64_t>(traffic.sequence);
  out->PutBytes(traffic.secret.data(), traffic.secret.size());
}

bool Get(Reader* in, TlsTraffic* traffic) {
  traffic->suite = static_cast<TlsSuite>(in->Get<uint16_t>());
  traffic->sequence = in->Get<uint64_t>();
  const std::span<const std::byte> secret = in->GetBytes();
  traffic->secret.assign(secret.begin(), secret.end());
  return !secret.empty() && secret.size() == TlsSecretBytes(traffic->suite);
}

}  // namespace

size_t TlsSecretBytes(TlsSuite suite) {
  switch (suite) {
    case TlsSuite::kAes128GcmSha256:
    case TlsSuite::kChacha20Poly1305Sha256:
      return 32;
    case TlsSuite::kAes256GcmSha384:
      return 48;
  }
  return 0;
}

std::vector<std::byte> EncodeTlsKeys(const TlsKeys& keys) {
  Builder out;
  Put(&out, keys.read);
  Put(&out, keys.write);
  const std::span<const std::byte> bytes = out.bytes();
  return {bytes.begin(), bytes.end()};
}

Result<TlsKeys> DecodeTlsKeys(std::span<const std::byte> bytes) {
  TlsKeys keys;
  Reader in(bytes.first(std::min(bytes.size(), kMaxTlsKeysBytes + 1)));
  if (!Get(&in, &keys.read) || !Get(&in, &keys.write) || !in.Done()) {
    return Status(Code::kMalformed,
                  "tls: keys of " + std::to_string(bytes.size()) + " bytes cannot be read");
  }
  return keys;
}

}  // namespace farcall
