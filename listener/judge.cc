// SPDX-License-Identifier: Apache-2.0
// Whole HELLOs: opened and handed on, one address after the other.
#include <spdlog/spdlog.h>

#include <exception>

#include "listener/handshake_server.h"

namespace farcall {

namespace {

constexpr size_t kDescriptorsOfAdmission = 8;  // of a worker: sockets, files, its process

}  // namespace

void HandshakeServer::Judge() {
  while (std::unique_ptr<Guest> guest = TakeReady()) {
    reserve_.Lend(kDescriptorsOfAdmission, 0);
    try {
      ReadHello(std::move(guest));
    } catch (const std::exception& error) {
      spdlog::error("a handshake ends: {}", error.what());
    }
    reserve_.Refill();
  }
}

// Nothing: the server stops.
std::unique_ptr<HandshakeServer::Guest> HandshakeServer::TakeReady() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return stopping_ || !turns_.empty(); });
  if (stopping_) return nullptr;
  const uint64_t number = turns_.PickNext();
  turns_.Remove(number);
  std::unique_ptr<Guest> guest = std::move(ready_.at(number));
  ready_.erase(number);
  return guest;
}

void HandshakeServer::ReadHello(std::unique_ptr<Guest> guest) {
  Result<ReceivedHello> heard = guest->exchange.Receive(guest->packet);
  if (heard.ok()) admit_(std::move(guest->channel), std::move(*heard), *guest->listener);
}

}  // namespace farcall
