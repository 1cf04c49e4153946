// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/bootstrap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "client-shim/nccl/bootstrap_wire.h"
#include "client-shim/nccl/error.h"

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
  int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  // A host that has vanished is noticed within a minute.
  int idle = 20, interval = 10, probes = 4;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  return socket;
}

}  // namespace

Bootstrap::~Bootstrap() {
  SendAll(socket_, Message(MessageKind::kBye, 0, ""));
  close(socket_);
}

ncclResult_t Bootstrap::Join(const ncclUniqueId& unique_id, int rank, int ranks,
                             std::unique_ptr<Bootstrap>* joined) {
  MeetingId id;
  std::memcpy(&id, &unique_id, sizeof(id));
  if (std::memcmp(id.magic, kIdMagic, sizeof(id.magic)) != 0 || id.count > kMaxAddresses)
    return Fail(ncclInvalidArgument, "the unique id is none of ncclGetUniqueId of this library");
  Hello hello = {};
  std::memcpy(hello.secret, id.secret, kSecretBytes);
  hello.rank = static_cast<uint32_t>(rank);
  hello.ranks = static_cast<uint32_t>(ranks);
  std::string greeting = Message(MessageKind::kHello, 0,
                                 std::string(reinterpret_cast<const char*>(&hello), sizeof(hello)));
  for (int i = 0; i < id.count; ++i) {
    int socket = Connect(id.addresses[i], id.port);
    if (socket < 0) continue;
    // Connected with a limit; from here on each call waits for its bytes.
    if (fcntl(socket, F_SETFL, 0) == 0 && SendAll(socket, greeting)) {
      joined->reset(new Bootstrap(socket, ranks));
      return ncclSuccess;
    }
    close(socket);
  }
  return Fail(ncclSystemError, "rank %d cannot reach the process that made the unique id, port %u",
              rank, id.port);
}

ncclResult_t Bootstrap::AllGather(const std::string& mine, std::vector<std::string>* all) {
  const auto left = [this] {
    lost_ = true;
    return Fail(ncclRemoteError, "another rank of the communicator has gone");
  };
  if (lost_ || mine.size() > kMaxBlobBytes ||
      !SendAll(socket_, Message(MessageKind::kBlob, round_, mine)))
    return left();
  MessageHead head;
  if (!ReceiveAll(socket_, &head, sizeof(head))) return left();
  const size_t most = static_cast<size_t>(ranks_) * (kMaxBlobBytes + sizeof(uint32_t));
  if (head.kind != static_cast<uint32_t>(MessageKind::kAll) || head.round != round_ ||
      head.bytes > most)
    return left();
  std::string joined(head.bytes, '\0');
  if (!ReceiveAll(socket_, joined.data(), joined.size()) ||
      !SplitBlobs(joined, static_cast<size_t>(ranks_), all))
    return left();
  ++round_;
  return ncclSuccess;
}

bool Bootstrap::AllPresent() {
  char byte;
  ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost_ = true;
  return !lost_;
}

}  // namespace farcall::nccl
