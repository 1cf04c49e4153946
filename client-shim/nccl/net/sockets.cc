// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/net/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

constexpr int kConnectMs = 3000;

int Connect(const MeetingAddress& address, uint16_t port) {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  if (address.family == AF_INET) {
    auto* ip4 = reinterpret_cast<sockaddr_in*>(&storage);
    ip4->sin_family = AF_INET;
    ip4->sin_port = htons(port);
    std::memcpy(&ip4->sin_addr, address.bytes, 4);
    bytes = sizeof(*ip4);
  } else if (address.family == AF_INET6) {
    auto* ip6 = reinterpret_cast<sockaddr_in6*>(&storage);
    ip6->sin6_family = AF_INET6;
    ip6->sin6_port = htons(port);
    std::memcpy(&ip6->sin6_addr, address.bytes, 16);
    bytes = sizeof(*ip6);
  } else {
    return -1;
  }
  int socket = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  pollfd ready = {socket, POLLOUT, 0};
  int error = 0;
  socklen_t error_bytes = sizeof(error);
  bool connected =
      connect(socket, reinterpret_cast<sockaddr*>(&storage), bytes) == 0 ||
      (errno == EINPROGRESS && poll(&ready, 1, kConnectMs) == 1 &&
       getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error == 0);
  if (!connected) {
    close(socket);
    return -1;
  }
  return socket;
}

// This host's addresses, loopback last: ranks elsewhere must not try it first.
void ListAddresses(MeetingId* id) {
  std::vector<MeetingAddress> near, far;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || !(entry->ifa_flags & IFF_UP)) continue;
      MeetingAddress address = {};
      address.family = static_cast<uint8_t>(entry->ifa_addr->sa_family);
      if (address.family == AF_INET) {
        std::memcpy(address.bytes, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, 4);
      } else if (address.family == AF_INET6) {
        const auto& ip6 = reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&ip6)) continue;
        std::memcpy(address.bytes, &ip6, 16);
      } else {
        continue;
      }
      (entry->ifa_flags & IFF_LOOPBACK ? near : far).push_back(address);
    }
    freeifaddrs(list);
  }
  // Room for one of loopback whatever there is.
  if (near.size() > 1) near.erase(near.begin() + 1, near.end());
  const size_t room = kMaxAddresses - near.size();
  if (far.size() > room) far.erase(far.begin() + static_cast<long>(room), far.end());
  far.insert(far.end(), near.begin(), near.end());
  id->count = static_cast<uint8_t>(far.size());
  std::copy(far.begin(), far.end(), id->addresses);
}

int Listen(uint16_t* port) {
  int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(sockaddr_in6);
  int off = 0;
  if (listener >= 0 && setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) {
    address.ss_family = AF_INET6;
  } else {
    if (listener >= 0) close(listener);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.ss_family = AF_INET;
    bytes = sizeof(sockaddr_in);
  }
  if (listener < 0) return -1;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listener, 1024) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    close(listener);
    return -1;
  }
  // The port lies at the same place in both.
  *port = ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return listener;
}

}  // namespace

ncclResult_t ListenAnywhere(MeetingId* id, int* listener) {
  std::memcpy(id->magic, kIdMagic, sizeof(id->magic));
  if (getrandom(id->secret, sizeof(id->secret), 0) != static_cast<ssize_t>(sizeof(id->secret)))
    return Fail(ncclSystemError, "no random bytes for a unique id");
  *listener = Listen(&id->port);
  if (*listener < 0)
    return Fail(ncclSystemError, "no socket for the ranks to meet at: %s", std::strerror(errno));
  ListAddresses(id);
  return ncclSuccess;
}

int ConnectAndSend(const MeetingId& id, const std::string& greeting) {
  for (int i = 0; i < std::min<int>(id.count, kMaxAddresses); ++i) {
    int socket = Connect(id.addresses[i], id.port);
    if (socket < 0) continue;
    // Connected with a limit; from here on each call waits for its bytes.
    PrepareSocket(socket);
    if (SendAll(socket, greeting)) return socket;
    close(socket);
  }
  return -1;
}

void PrepareSocket(int socket) {
  fcntl(socket, F_SETFL, 0);
  int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  int idle = 20, interval = 10, probes = 4;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

bool SameSecret(const uint8_t* given, const uint8_t* secret) {
  unsigned differs = 0;
  for (size_t i = 0; i < kSecretBytes; ++i) differs |= given[i] ^ secret[i];
  return differs == 0;
}

}  // namespace farcall::nccl
