// SPDX-License-Identifier: Apache-2.0
// pool:// or pools://: greets programs as a server does, finds or makes their claim, and sends them
// to its host.
#pragma once

#include <memory>
#include <string>

#include "listener/handshake_server.h"
#include "listener/tls/tls_port.h"
#include "pool/data_port/waiting_programs.h"
#include "pool/service/service.h"

namespace farcall::pool {

class DataPort {
 public:
  // `callers` outlives this.
  DataPort(Service* service, const Callers& callers);

  // `address`: host:port.   Errors  kUnavailable, kInvalid (a file)
  Status Open(const std::string& address, const TlsFiles& tls);
  const std::string& address() const { return address_; }  // host:port really bound
  // Begins to answer; after the controller has.   Errors  kUnavailable
  Status Start();
  void Close();

 private:
  void Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard);
  struct Known {
    AnswerKey answer;
    Caller caller;
  };
  Result<Known> Judge(const Channel& channel, const ReceivedHello& heard) const;
  Result<std::string> ClaimOf(const Channel& channel, const Hello& hello, const Caller& caller,
                              bool* is_own);

  Service* const service_;
  const Callers& callers_;
  std::string address_;
  WaitingPrograms waiting_;
  HandshakeServer handshakes_;
  std::unique_ptr<TlsPort> tls_port_;  // null: plain
};

}  // namespace farcall::pool
