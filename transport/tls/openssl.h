// SPDX-License-Identifier: Apache-2.0
// What all users of OpenSSL here have in common.
#pragma once

#include <string>

namespace farcall {

// Neither openssl.cnf nor engines of the machine, and nothing at exit: we live in other people's
// programs.   Before  OpenSSL is used   Thread  any; again does nothing
void StartOpenSsl();

// Whether it is an IPv4 or IPv6 address, and no name.
bool IsAddress(const std::string& host);

}  // namespace farcall
