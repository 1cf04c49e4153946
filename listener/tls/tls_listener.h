// SPDX-License-Identifier: Apache-2.0
// Channels whose TLS handshake somebody else has made, as a listener that a HandshakeServer hears.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "transport/channel.h"

namespace farcall {

class TlsListener final : public Listener {
 public:
  static constexpr size_t kMaxWaiting = 1024;

  explicit TlsListener(std::string url);
  ~TlsListener() override;

  // Drops it if too many wait.   Thread  any
  void Push(std::unique_ptr<Channel> channel);

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override;
  int PollDescriptor() const override { return ready_; }
  void Close() override;
  std::string Url() const override { return url_; }

 private:
  const std::string url_;
  const int ready_;  // an eventfd: how many wait
  std::mutex mutex_;
  std::deque<std::unique_ptr<Channel>> waiting_;
  bool is_closed_ = false;
};

}  // namespace farcall
