// SPDX-License-Identifier: Apache-2.0
#include "server/control/control_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace farcall::server::control {

namespace {

constexpr size_t kMaxDescriptors = 4;

}  // namespace

Status SendPacket(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (bytes.empty() || descriptors.size() > kMaxDescriptors)
    return {Code::kInternal, "control socket: no message that can be sent"};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptors.size() != 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
    return {Code::kUnavailable, "control socket: the peer does not read"};
  return {Code::kDisconnected, "control socket: " + std::string(strerror(errno))};
}

Status SendPacketAndWait(int fd, std::span<const std::byte> bytes,
                         std::initializer_list<int> descriptors) {
  constexpr int kPauseMs = 10;  // against a kernel that says there is room and has none
  for (;;) {
    Status sent = SendPacket(fd, bytes, descriptors);
    if (sent.code() != Code::kUnavailable) return sent;
    pollfd writable{fd, POLLOUT, 0};
    if (poll(&writable, 1, -1) == 1 && (writable.revents & POLLOUT) != 0) {
      sent = SendPacket(fd, bytes, descriptors);
      if (sent.code() != Code::kUnavailable) return sent;
      poll(nullptr, 0, kPauseMs);
    }
  }
}

std::vector<int> ReceivedDescriptors(msghdr* header) {
  std::vector<int> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(header); part != nullptr; part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = descriptors.size();
    descriptors.resize(before + count);
    std::memcpy(descriptors.data() + before, CMSG_DATA(part), count * sizeof(int));
  }
  return descriptors;
}

Status ReceivePacket(int fd, Packet* packet, std::vector<int>* descriptors) {
  iovec part{packet->room.data(), packet->room.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  // A peer that closes before it has read all leaves ECONNRESET ahead of its own last packets.
  do {
    got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0 && errno == EAGAIN) return {Code::kTimeout, "control socket: nothing there"};
  if (got <= 0) return {Code::kDisconnected, "control socket: the peer is gone"};
  const std::vector<int> received = ReceivedDescriptors(&header);
  descriptors->insert(descriptors->end(), received.begin(), received.end());
  if (static_cast<size_t>(got) > packet->room.size())
    return {Code::kMalformed, "control socket: a message of " + std::to_string(got) + " bytes"};
  packet->size = static_cast<size_t>(got);
  return {};
}

}  // namespace farcall::server::control
