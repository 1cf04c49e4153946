// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/descriptors.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace farcall {

Status SendDescriptors(int socket, std::span<const int> descriptors, const std::string& peer) {
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) std::array<char, kDescriptorRoomBytes> control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  return {Code::kUnavailable, peer + ": shared memory cannot be offered: " + strerror(errno)};
}

size_t DescriptorsOf(const cmsghdr& header, std::array<int, kMaxSentDescriptors>* descriptors) {
  descriptors->fill(-1);
  if (header.cmsg_level != SOL_SOCKET || header.cmsg_type != SCM_RIGHTS) return 0;
  const size_t count = (header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  std::memcpy(descriptors->data(), CMSG_DATA(&header),
              std::min(count, kMaxSentDescriptors) * sizeof(int));
  return count;
}

DescriptorQueue::~DescriptorQueue() {
  for (const int descriptor : waiting_) close(descriptor);
}

void DescriptorQueue::Keep(const cmsghdr& header) {
  std::array<int, kMaxSentDescriptors> came;
  DescriptorsOf(header, &came);
  for (const int descriptor : came) {
    if (descriptor < 0) continue;
    if (waiting_.size() < kMaxWaiting)
      waiting_.push_back(descriptor);
    else
      close(descriptor);
  }
}

int DescriptorQueue::Take() {
  const int first = waiting_.front();
  waiting_.pop_front();
  return first;
}

}  // namespace farcall
