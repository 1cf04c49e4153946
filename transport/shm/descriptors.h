// SPDX-License-Identifier: Apache-2.0
// Descriptors that a connection's UNIX socket carries: with one byte, and at most two at a time.
#pragma once

#include <sys/socket.h>

#include <array>
#include <deque>
#include <span>
#include <string>

#include "proto/status.h"

namespace farcall {

inline constexpr size_t kMaxSentDescriptors = 2;
inline constexpr size_t kDescriptorRoomBytes = CMSG_SPACE(kMaxSentDescriptors * sizeof(int));

// `peer`: for the message.
//   Errors  kUnavailable: the peer takes none now, or has gone
Status SendDescriptors(int socket, std::span<const int> descriptors, const std::string& peer);

// What came in a message: how many its sender put there, of which at most so many are here.
size_t DescriptorsOf(const cmsghdr& header, std::array<int, kMaxSentDescriptors>* descriptors);

// Those that came and were not taken yet; closed with it.   Thread  one
class DescriptorQueue {
 public:
  DescriptorQueue() = default;
  DescriptorQueue(const DescriptorQueue&) = delete;
  DescriptorQueue& operator=(const DescriptorQueue&) = delete;
  ~DescriptorQueue();

  bool empty() const { return waiting_.empty(); }
  // What finds no room is closed.
  void Keep(const cmsghdr& header);
  int Take();  // not while empty

 private:
  static constexpr size_t kMaxWaiting = 16;
  std::deque<int> waiting_;
};

}  // namespace farcall
