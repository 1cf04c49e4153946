// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/worker_inbox.h"

#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "server/control/control_socket.h"

namespace farcall::server {

namespace {

constexpr unsigned kNvidiaMajor = 195;     // nvidiactl, nvidia0 ...
constexpr long kDmaBufMagic = 0x444d4142;  // linux/magic.h of newer kernels has it
constexpr size_t kMaxDescriptors = 253;    // SCM_MAX_FD: what one message can carry

struct Taken {
  ssize_t bytes = 0;
  bool has_descriptors = false;
  std::vector<int> descriptors;
};

// `room`: for so many descriptors. What has no room is closed by the kernel: only the copies that
// MSG_PEEK makes may be dropped so.
Taken Receive(int control, int flags, control::Packet* packet, size_t room) {
  iovec part{packet->room.data(), packet->room.size()};
  alignas(cmsghdr) char rights[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room == 0 ? nullptr : rights;
  header.msg_controllen = room == 0 ? 0 : CMSG_SPACE(sizeof(int) * room);
  Taken taken;
  do {
    taken.bytes = recvmsg(control, &header, flags | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
  } while (taken.bytes < 0 && errno == EINTR);
  if (taken.bytes < 0) return taken;
  packet->size = std::min(static_cast<size_t>(taken.bytes), packet->room.size());
  taken.has_descriptors = (header.msg_flags & MSG_CTRUNC) != 0;
  if (room != 0) taken.descriptors = control::ReceivedDescriptors(&header);
  taken.has_descriptors = taken.has_descriptors || !taken.descriptors.empty();
  return taken;
}

// Looks at copies, which are not the last of their kind: closing them waits for nothing.
bool CarriesOneMemory(int control) {
  control::Packet packet;
  Taken copies = Receive(control, MSG_PEEK, &packet, kMaxDescriptors);
  const bool fits = copies.descriptors.size() == 1 && IsMemoryDescriptor(copies.descriptors[0]);
  for (int fd : copies.descriptors) close(fd);
  return fits;
}

bool MayCarryThem(int control, control::Carries carries) {
  switch (carries) {
    case control::Carries::kMemory:
    case control::Carries::kMemoryFile:
      return CarriesOneMemory(control);
    case control::Carries::kNothing:
    case control::Carries::kSocket:  // a worker has none for us
    case control::Carries::kSessionStart:
      return false;
  }
  return false;
}

}  // namespace

bool IsMemoryDescriptor(int fd) {
  struct stat status {};
  struct statfs system {};
  if (fstat(fd, &status) != 0) return false;
  if (S_ISCHR(status.st_mode)) return major(status.st_rdev) == kNvidiaMajor;
  if (fstatfs(fd, &system) != 0) return false;
  if (system.f_type == kDmaBufMagic) return true;
  return S_ISREG(status.st_mode) &&
         (system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC);
}

Status TakeFromWorker(int control, control::FromWorker* message, int* descriptor) {
  *descriptor = -1;
  control::Packet packet;
  Taken seen = Receive(control, MSG_PEEK, &packet, 0);
  if (seen.bytes < 0 && errno == EAGAIN) return {Code::kTimeout, "control socket: nothing there"};
  if (seen.bytes <= 0) return {Code::kDisconnected, "control socket: the peer is gone"};
  control::FromWorker read;
  Status decoded = static_cast<size_t>(seen.bytes) > packet.room.size()
                       ? Status(Code::kMalformed, "longer than any message")
                       : control::Decode(packet.bytes(), &read);
  if (!decoded.ok()) {
    return {Code::kMalformed, "it sent " + std::to_string(seen.bytes) + " bytes, " +
                                  decoded.message() + ": not a message of a worker"};
  }
  if (seen.has_descriptors && !MayCarryThem(control, control::CarriesOf(read))) {
    return {Code::kMalformed, "it sent descriptors that a message of type " +
                                  std::to_string(static_cast<unsigned>(control::TypeOf(read))) +
                                  " may not carry"};
  }
  Taken taken = Receive(control, 0, &packet, seen.has_descriptors ? 1 : 0);
  if (!taken.descriptors.empty()) *descriptor = taken.descriptors[0];
  *message = std::move(read);
  return {};
}

}  // namespace farcall::server
