// SPDX-License-Identifier: Apache-2.0
// A port that speaks TLS within one process, which holds the certificate's key: for servers that
// run nobody else's code. `farcall serve` has a process of its own for it (server/tls_gateway).
#pragma once

#include <memory>
#include <string>

#include "listener/tls/tls_acceptor.h"
#include "listener/tls/tls_listener.h"
#include "transport/sync.h"

namespace farcall {

class TlsPort {
 public:
  // `tcp`: what it listens on.
  TlsPort(TlsFiles files, std::unique_ptr<Listener> tcp, TlsAcceptor::Warn warn);
  ~TlsPort();
  TlsPort(const TlsPort&) = delete;
  TlsPort& operator=(const TlsPort&) = delete;

  // Begins to shake hands, on a thread of its own.   Errors  kInvalid (a file), kUnavailable
  Status Start();
  // Its channels; once.
  std::unique_ptr<Listener> TakeListener() { return std::move(made_); }
  // Before whoever took the listener closes it.
  void Stop();

 private:
  void Pass(std::unique_ptr<Channel> channel, const TlsKeys& keys, const std::string& identity);

  const std::unique_ptr<Listener> tcp_;
  const int stop_;  // an eventfd
  std::unique_ptr<TlsListener> made_;
  TlsListener* const listener_;
  TlsAcceptor acceptor_;
  WorkerThread thread_;
};

}  // namespace farcall
