// SPDX-License-Identifier: Apache-2.0
// Accepting and greeting.
#include "server/supervisor/handshake_server.h"

#include "server/supervisor/version.h"
#include "transport/handshake.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxGuests = 128;  // beyond it the one who has been silent longest is shown out
constexpr std::chrono::seconds kPatience(10);

}  // namespace

void HandshakeServer::Listen(std::unique_ptr<Listener> listener) {
  Listener& used = *listener;
  listeners_.push_back(std::move(listener));
  threads_.emplace_back([this, &used] { AcceptLoop(used); });
}

void HandshakeServer::AcceptLoop(Listener& listener) {
  while (!stopping_) {
    Result<std::unique_ptr<Channel>> channel =
        listener.Accept(Clock::now() + std::chrono::seconds(60));
    if (!channel.ok()) {
      if (channel.status().code() == Code::kTimeout) {
        continue;
      }
      if (stopping_) {
        return;
      }
      std::this_thread::sleep_for(
          std::chrono::milliseconds(50));  // out of descriptors: some will come back
      continue;
    }
    auto guest = Register(channel->get());
    std::thread([this, held = std::move(*channel), guest]() mutable {
      Greet(std::move(held), guest);
    }).detach();
  }
}

std::list<HandshakeServer::Guest>::iterator HandshakeServer::Register(Channel* channel) {
  std::lock_guard lock(mutex_);
  ++threads_running_;
  size_t waited_for = 0;
  for (const Guest& guest : guests_) {
    waited_for += guest.channel != nullptr ? 1 : 0;
  }
  if (waited_for >= kMaxGuests) {
    for (Guest& guest : guests_) {
      if (guest.channel == nullptr) {
        continue;
      }
      guest.channel->Close();
      guest.channel = nullptr;
      break;
    }
  }
  guests_.push_back({channel});
  return std::prev(guests_.end());
}

void HandshakeServer::Greet(std::unique_ptr<Channel> channel, std::list<Guest>::iterator guest) {
  auto deadline = Clock::now() + kPatience;
  const ServerExchange exchange(needs_token_, kServerVersion);
  Result<HeardHello> heard = GreetAndHear(*channel, exchange, deadline);
  {
    std::lock_guard lock(mutex_);
    guests_.erase(guest);
  }
  if (heard.ok()) {
    admit_(std::move(channel), std::move(*heard));
  } else if (heard.status().code() == Code::kUnsupported) {
    (void)SendRefuse(*channel, {Code::kUnsupported, heard.status().message()},
                     Clock::now() + std::chrono::seconds(1));
  }
  channel.reset();
  std::lock_guard lock(mutex_);
  --threads_running_;
  left_.notify_all();
}

void HandshakeServer::Stop() {
  if (stopping_.exchange(true)) {
    return;
  }
  for (auto& listener : listeners_) {
    listener->Close();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  std::unique_lock lock(mutex_);
  for (Guest& guest : guests_) {
    if (guest.channel != nullptr) {
      guest.channel->Close();
    }
  }
  left_.wait(lock, [this] { return threads_running_ == 0; });
}

}  // namespace farcall::server
