// SPDX-License-Identifier: Apache-2.0
// How devices of several servers are told apart in one list: by the server's place in it, which is
// the first digit of their PCI domains.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace farcall {

inline constexpr unsigned kDomainDigits = 12;  // bits below the server's

// `domain` of a device, as a client with a list of servers shows it.
inline unsigned DomainInList(unsigned domain, uint8_t server) {
  return (domain & ((1u << kDomainDigits) - 1)) | unsigned{server} << kDomainDigits;
}

// The same of a whole id, "0000:01:00.0". The first server's, and one that does not begin with a
// domain, stays as it is.
//   *domain  that of the result, if there is one
inline std::string PciIdInList(const std::string& id, uint8_t server, unsigned* domain) {
  int used = 0;
  if (server == 0) return id;
  if (std::sscanf(id.c_str(), "%x%n", domain, &used) != 1) return id;
  *domain = DomainInList(*domain, server);
  char text[16];
  std::snprintf(text, sizeof(text), "%04X", *domain);
  return text + id.substr(static_cast<size_t>(used));
}

}  // namespace farcall
