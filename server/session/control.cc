// SPDX-License-Identifier: Apache-2.0
// The control socket's messages.
#include "server/session/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace farcall::server {

namespace {

constexpr size_t kMaxDescriptors = 4;
// What a memory file stays as: nobody who holds it can change it, nor allow that again.
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

}  // namespace

void ControlMessage::SetText(std::string_view value) {
  size_t bytes = std::min(value.size(), sizeof(text) - 1);
  std::memcpy(text, value.data(), bytes);
  text[bytes] = 0;
}

std::string_view ControlMessage::Text() const {
  return {text, strnlen(text, sizeof(text))};
}

Status SendControl(int fd, const ControlMessage& message, std::initializer_list<int> descriptors) {
  iovec part{const_cast<ControlMessage*>(&message), sizeof(message)};
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
    std::memcpy(CMSG_DATA(rights), descriptors.begin(), sizeof(int) * descriptors.size());
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof(message))) {
    return {};
  }
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
    return {Code::kUnavailable, "control socket: the peer does not read"};
  }
  return {Code::kDisconnected, "control socket: " + std::string(strerror(errno))};
}

Status SendToSupervisor(int fd, const ControlMessage& message,
                        std::initializer_list<int> descriptors) {
  constexpr int kPauseMs = 10;  // against a kernel that says there is room and has none
  for (;;) {
    Status sent = SendControl(fd, message, descriptors);
    if (sent.code() != Code::kUnavailable) {
      return sent;
    }
    pollfd writable{fd, POLLOUT, 0};
    if (poll(&writable, 1, -1) == 1 && (writable.revents & POLLOUT) != 0) {
      sent = SendControl(fd, message, descriptors);
      if (sent.code() != Code::kUnavailable) {
        return sent;
      }
      poll(nullptr, 0, kPauseMs);
    }
  }
}

std::vector<int> ReceivedDescriptors(msghdr* header) {
  std::vector<int> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(header); part != nullptr; part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = descriptors.size();
    descriptors.resize(before + count);
    std::memcpy(descriptors.data() + before, CMSG_DATA(part), count * sizeof(int));
  }
  return descriptors;
}

Status ReceiveControl(int fd, ControlMessage* message, std::vector<int>* descriptors) {
  iovec part{message, sizeof(*message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) {
    return {Code::kTimeout, "control socket: nothing there"};
  }
  if (got <= 0) {
    return {Code::kDisconnected, "control socket: the peer is gone"};
  }
  const std::vector<int> received = ReceivedDescriptors(&header);
  descriptors->insert(descriptors->end(), received.begin(), received.end());
  if (got != static_cast<ssize_t>(sizeof(*message))) {
    return {Code::kMalformed, "control socket: a message of " + std::to_string(got) + " bytes"};
  }
  message->text[sizeof(message->text) - 1] = 0;
  return {};
}

int MakeMemoryFile(const char* name, const std::vector<std::byte>& bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return -1;
  }
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t wrote = write(fd, bytes.data() + at, bytes.size() - at);
    if (wrote <= 0) {
      close(fd);
      return -1;
    }
    at += static_cast<size_t>(wrote);
  }
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

Result<std::vector<std::byte>> ReadMemoryFile(int fd, size_t limit) {
  // A file of another kind could keep its reader waiting, or change under it.
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kMalformed, "memory file: it is not sealed");
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) > limit) {
    return Status(Code::kMalformed, "memory file: " + std::to_string(status.st_size) +
                                        " bytes, at most " + std::to_string(limit));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t got = pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got <= 0) {
      return Status(Code::kMalformed, "memory file: it ends early");
    }
    at += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace farcall::server
