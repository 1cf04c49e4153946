// SPDX-License-Identifier: Apache-2.0
// tls:// ports of the server. A process of its own, the gateway, holds the certificate's key and
// shakes hands; it passes on sockets with the keys of their connection, and those alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "listener/tls/tls_listener.h"
#include "server/control/messages.h"
#include "server/supervisor/processes/helper_process.h"
#include "transport/channel.h"
#include "transport/tls/tls_session.h"

namespace farcall::server {

// One port.
//   Thread  the supervisor's loop, unless said otherwise
class TlsPort {
 public:
  // `tcp`: what it listens on; stays open, so that a gateway that died can be started again.
  TlsPort(Closer& closer, int epoll, TlsFiles files, std::unique_ptr<Listener> tcp);

  // Waits until it accepts connections.   Errors  kUnavailable; kInvalid (one of the files)
  Status Open();
  // Its channels. Before Start; once.
  std::unique_ptr<Listener> TakeListener();
  std::string Url() const { return url_; }
  // Whether `fd` was this one's to read; reads it.
  bool OnReadable(int fd);
  void Tick();

 private:
  Status Start();
  void Answer(const control::TlsReady& message, const std::vector<int>& descriptors);
  void Answer(const control::TlsConnected& message, const std::vector<int>& descriptors);
  void Answer(const control::TlsWarning& message, const std::vector<int>& descriptors);

  const TlsFiles files_;
  const std::unique_ptr<Listener> tcp_;
  const std::string url_;
  HelperProcess gateway_;
  std::unique_ptr<TlsListener> made_;
  TlsListener* listener_ = nullptr;
  Clock::time_point start_again_{};
  bool is_started_ = false, is_ready_ = false;
  std::string warning_;  // what it said last
};

}  // namespace farcall::server
