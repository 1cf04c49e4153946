// SPDX-License-Identifier: Apache-2.0
// pool://: greets programs as a server does, finds or makes their claim, and sends them to its
// host.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pool/service.h"
#include "server/supervisor/handshake_server.h"

namespace farcall::pool {

class DataPort {
 public:
  DataPort(Service* service, const std::string& token);

  //   Errors  kUnavailable
  Status Open(const std::string& url);                     // tcp://host:port
  const std::string& address() const { return address_; }  // host:port really bound
  void Close() { door_.Stop(); }

 private:
  void Admit(std::unique_ptr<Channel> channel, const HeardHello& heard);
  Result<Redirect> Judge(Channel& channel, const HeardHello& heard, AnswerKey* answer);
  // What to answer; waits for a place while the client does.
  Result<Redirect> Find(Channel& channel, const Hello& hello);
  Result<std::string> ClaimOf(const Hello& hello, bool* is_own);
  // Of a claim that can be used.
  std::optional<Redirect> Lead(const std::string& id);

  Service* const service_;
  const std::vector<TokenVerifier> tokens_;  // empty: none is wanted
  std::string address_;
  std::atomic<int> waiting_{0};
  server::HandshakeServer door_;
};

}  // namespace farcall::pool
