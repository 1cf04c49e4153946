// SPDX-License-Identifier: Apache-2.0
// Greets whoever connects and hears their HELLO, each on a short-lived thread: a slow or hostile
// one delays nobody.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/server_exchange.h"
#include "transport/channel.h"

namespace farcall::server {

class HandshakeServer {
 public:
  // Judges a HELLO and takes the channel if it may in.   Thread  many at once
  using Admit = std::function<void(std::unique_ptr<Channel> channel, HeardHello heard)>;

  HandshakeServer(bool needs_token, Admit admit)
      : needs_token_(needs_token), admit_(std::move(admit)) {}
  ~HandshakeServer() { Stop(); }

  void Listen(std::unique_ptr<Listener> listener);
  void Stop();

 private:
  struct Guest {
    Channel* channel = nullptr;  // while it is waited for
  };
  void AcceptLoop(Listener& listener);
  void Greet(std::unique_ptr<Channel> channel, std::list<Guest>::iterator guest);
  std::list<Guest>::iterator Register(Channel* channel);

  const bool needs_token_;
  Admit admit_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::list<Guest> guests_;  // oldest first
  size_t threads_running_ = 0;
  std::atomic<bool> stopping_{false};
};

}  // namespace farcall::server
