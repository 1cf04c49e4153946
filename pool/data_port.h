// SPDX-License-Identifier: Apache-2.0
// pool://: greets programs as a server does, finds or makes their claim, and sends them to its
// host.
#pragma once

#include <memory>
#include <string>

#include "listener/handshake_server.h"
#include "pool/service.h"
#include "pool/waiting_programs.h"

namespace farcall::pool {

class DataPort {
 public:
  // `callers` outlives this.
  DataPort(Service* service, const Callers& callers);

  //   Errors  kUnavailable
  Status Open(const std::string& url);                     // tcp://host:port
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
  Result<Known> Judge(const ReceivedHello& heard) const;
  Result<std::string> ClaimOf(const Hello& hello, const Caller& caller, bool* is_own);

  Service* const service_;
  const Callers& callers_;
  std::string address_;
  WaitingPrograms waiting_;
  HandshakeServer handshakes_;
};

}  // namespace farcall::pool
