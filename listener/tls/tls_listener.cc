// SPDX-License-Identifier: Apache-2.0
#include "listener/tls/tls_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "transport/poll.h"

namespace farcall {

TlsListener::TlsListener(std::string url)
    : url_(std::move(url)), ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {}

TlsListener::~TlsListener() {
  close(ready_);
}

void TlsListener::Push(std::unique_ptr<Channel> channel) {
  std::lock_guard lock(mutex_);
  if (is_closed_ || waiting_.size() >= kMaxWaiting) return channel->Abandon();
  waiting_.push_back(std::move(channel));
  eventfd_write(ready_, 1);
}

Result<std::unique_ptr<Channel>> TlsListener::Accept(Clock::time_point deadline) {
  pollfd readable{ready_, POLLIN, 0};
  PollUntil({&readable, 1}, deadline);
  std::lock_guard lock(mutex_);
  if (is_closed_) return Status(Code::kDisconnected, url_ + ": no longer listening");
  eventfd_t count = 0;
  if (waiting_.empty() || eventfd_read(ready_, &count) != 0)
    return Status(Code::kTimeout, url_ + ": nobody connected");
  std::unique_ptr<Channel> channel = std::move(waiting_.front());
  waiting_.pop_front();
  return channel;
}

void TlsListener::Close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  waiting_.clear();
  eventfd_write(ready_, 1);
}

}  // namespace farcall
