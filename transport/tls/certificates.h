// SPDX-License-Identifier: Apache-2.0
// A private certificate authority, as small as can be: keys on the curve P-256, certificates of
// X.509 v3.
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall {

struct PemPair {
  std::string certificate, key;  // PEM; the key is PKCS #8 and not encrypted
};

// An authority of that name, valid for so many days from now on.
//   Errors  kInternal (OpenSSL)
Result<PemPair> MakeAuthority(const std::string& name, int days);

struct CertificateWish {
  std::string name;                // the subject's common name
  std::vector<std::string> hosts;  // of a server: DNS names and addresses
  std::vector<std::string> uris;   // identities, as "farcall:team-a"
  int days = 0;
};
// A certificate for servers and clients alike, signed by the authority.
//   Errors  kInvalid (the authority's PEM cannot be read, a name is none), kInternal
Result<PemPair> IssueCertificate(const PemPair& authority, const CertificateWish& wish);

}  // namespace farcall
