// SPDX-License-Identifier: Apache-2.0
// Greets those who connect, reads their HELLOs and has them admitted. Whoever may reach the port is
// let this far, so all of it is bounded: one thread accepts, greets and reads for all, a few judge
// whole HELLOs, and both tables in which connections wait make room by closing one of the address
// that holds the most.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "listener/descriptors.h"
#include "listener/source_table.h"
#include "proto/handshake/server_exchange.h"
#include "sync/cond_var.h"
#include "transport/channel.h"
#include "transport/sync.h"

namespace farcall {

class HandshakeServer {
 public:
  // Judges a HELLO, which came by `listener`, and takes the channel if it may in.   Thread  several
  // at once; a few exist, so it must not wait for a peer
  using Admit = std::function<void(std::unique_ptr<Channel> channel, ReceivedHello heard,
                                   const Listener& listener)>;

  struct Bounds {
    size_t waiting = 4096;  // connections whose HELLO is not whole: units of 4 KiB of memory
    size_t ready = 1024;    // with a whole HELLO that no thread judges yet: likewise
    size_t judges = 4;      // threads
    std::chrono::milliseconds patience{10'000};  // from a connection to its whole HELLO
  };

  HandshakeServer(bool needs_token, Admit admit);
  HandshakeServer(bool needs_token, Admit admit, const Bounds& bounds);
  ~HandshakeServer() { Stop(); }

  // Before Start.
  void Listen(std::unique_ptr<Listener> listener) { listeners_.push_back(std::move(listener)); }
  // Starts all threads that it ever has.   Errors  kUnavailable
  Status Start();
  void Stop();

 private:
  struct Guest {
    Guest(std::unique_ptr<Channel> from, const Listener& by, bool needs_token);
    std::unique_ptr<Channel> channel;
    const Listener* listener;
    ServerExchange exchange;
    uint64_t source;
    Clock::time_point deadline;
    std::vector<std::byte> packet;  // grows as bytes come
    size_t got = 0, total = 0;      // bytes of the HELLO; total is known from its header on
    bool is_leaving = false;        // was refused: what it still sends is thrown away
    size_t Weight() const;
  };
  using Guests = std::map<uint64_t, std::unique_ptr<Guest>>;  // by number, so the oldest first

  // The loop's thread.
  void Loop();
  void Turn();
  int WaitMilliseconds() const;
  void AcceptSome(Listener& listener);
  Result<std::unique_ptr<Channel>> AcceptOne(Listener& listener);
  void PauseListeners(bool is_paused);
  void Greet(std::unique_ptr<Channel> channel, const Listener& listener);
  void Read(uint64_t number);
  bool ReadSome(uint64_t number, Guest& guest);
  void Discard(uint64_t number, Guest& guest);
  bool TakeHeader(uint64_t number, Guest& guest);
  void Queue(uint64_t number);
  bool ShedWaiting();
  void Drop(uint64_t number);
  void DropLate();

  // A judge's.
  void Judge();
  std::unique_ptr<Guest> TakeReady();
  void ReadHello(std::unique_ptr<Guest> guest);

  const bool needs_token_;
  const Admit admit_;
  const Bounds bounds_;
  const size_t most_waiting_, most_ready_;  // as far as there are descriptors
  std::vector<std::unique_ptr<Listener>> listeners_;
  DescriptorReserve reserve_;
  int epoll_ = -1, wake_ = -1;
  std::atomic<bool> stopping_{false};
  WorkerThread loop_;
  std::vector<WorkerThread> judges_;

  // Of the loop's thread.
  Guests guests_;
  SourceTable waiting_;  // all of guests_
  uint64_t next_number_ = 0;
  std::optional<Clock::time_point> resume_at_;  // listeners are not heard until then

  std::mutex mutex_;  // all below
  CondVar came_;
  Guests ready_;
  SourceTable turns_;  // all of ready_
};

}  // namespace farcall
