// SPDX-License-Identifier: Apache-2.0
// Who a certificate says its holder is.
#pragma once

#include <cstddef>
#include <string>

struct x509_st;

namespace farcall {

inline constexpr size_t kMaxIdentityBytes = 240;

// The certificate's first URI, else its common name, as UTF-8; empty: it has neither, or one that
// is longer or holds a NUL, so that nobody is known by a part of a name.
std::string CertificateIdentity(const x509_st* certificate);

}  // namespace farcall
