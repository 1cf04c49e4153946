// SPDX-License-Identifier: Apache-2.0
#include "listener/source.h"

#include <endian.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace farcall {

uint64_t SourceOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  if (address.ss_family != AF_INET6) return 0;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    uint32_t v4 = 0;
    std::memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
    return ntohl(v4);
  }
  uint64_t prefix = 0;  // none that is routed is as small as an IPv4 address
  std::memcpy(&prefix, v6.s6_addr, sizeof(prefix));
  return be64toh(prefix);
}

uint64_t SourceOfSocket(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (fd < 0 || getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return SourceOf(address);
}

bool IsLoopback(const sockaddr_storage& address) {
  constexpr uint64_t kLoopback = 127, kFirstByte = 24;
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && SourceOf(address) >> kFirstByte == kLoopback);
  }
  return address.ss_family == AF_INET && SourceOf(address) >> kFirstByte == kLoopback;
}

bool IsLoopbackPeer(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (fd < 0) return true;
  // One that has gone meanwhile has no address, and gets no answer either.
  return getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 && IsLoopback(address);
}

}  // namespace farcall
