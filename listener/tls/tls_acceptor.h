// SPDX-License-Identifier: Apache-2.0
// Accepts connections and shakes hands by TLS. Whoever may reach the port is let this far, so all
// of it is bounded: handshakes have a deadline, and a full table makes room by closing one of the
// address that holds the most.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "listener/source_table.h"
#include "listener/tls/tls_files_watch.h"
#include "transport/channel.h"
#include "transport/tls/tls_session.h"

namespace farcall {

//   Thread  one
class TlsAcceptor {
 public:
  // `channel`: the connection as it is below TLS, which goes on with the keys. `identity`: of the
  // client's certificate, which is verified.
  using Connected = std::function<void(std::unique_ptr<Channel> channel, const TlsKeys& keys,
                                       const std::string& identity)>;
  // Files that have changed cannot be used: the previous ones stay.
  using Warn = std::function<void(const std::string& why)>;

  TlsAcceptor(TlsFiles files, Connected connected, Warn warn);
  ~TlsAcceptor();
  TlsAcceptor(const TlsAcceptor&) = delete;
  TlsAcceptor& operator=(const TlsAcceptor&) = delete;

  // `listener`: a listening socket; `stop`: a descriptor that ends Run when it becomes readable.
  // Both stay the caller's.   Errors  kInvalid (a file), kUnavailable
  Status Open(int listener, int stop);
  void Run();

 private:
  struct Guest {
    Guest(std::unique_ptr<Channel> from, std::shared_ptr<TlsContext> context)
        : channel(std::move(from)), handshake(std::move(context), *channel) {}
    std::unique_ptr<Channel> channel;
    TlsHandshake handshake;
    Clock::time_point deadline;
    bool wants_write = false;
  };

  Status Load();
  void Watch(int operation, int fd, uint32_t wanted, uint64_t name);
  int WaitMilliseconds() const;
  void AcceptSome();
  void Step(uint64_t number);
  std::unique_ptr<Guest> Take(uint64_t number);  // out of the table; null: it is gone
  void Drop(uint64_t number);
  void DropLate();

  TlsFilesWatch files_;
  const Connected connected_;
  const Warn warn_;
  std::shared_ptr<TlsContext> context_;  // handshakes that have begun keep theirs
  int epoll_ = -1, listener_ = -1;
  std::map<uint64_t, std::unique_ptr<Guest>> guests_;  // by number: the oldest first
  SourceTable sources_;
  uint64_t next_number_ = 0;
};

}  // namespace farcall
