// SPDX-License-Identifier: Apache-2.0
// A person's login at an OpenID provider, from a terminal.
#pragma once

#include <string>

#include "proto/status.h"

namespace farcall::cli {

struct OidcLoginAt {
  std::string issuer, client;
  std::string ca;  // PEM file; "": the system's
};

// The device flow (RFC 8628): shows an address and a code on stderr, for a browser anywhere, and
// waits until the person has logged in there.
//   Result  the provider's ID token
//   Errors  kInvalid, kUnavailable, kMalformed, kRefused (the person or the provider), kTimeout
Result<std::string> LogInByDevice(const OidcLoginAt& at);

// The authorization code flow with PKCE (RFC 7636, 8252): shows an address for a browser on this
// machine, which comes back to a port of the loopback.
//   Errors  as above
Result<std::string> LogInByBrowser(const OidcLoginAt& at);

}  // namespace farcall::cli
