// SPDX-License-Identifier: Apache-2.0
// The worker's end of the control socket: asks the ledger, and waits for what the supervisor passes
// on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "server/control.h"
#include "server/memory_broker.h"

namespace farcall::server {

class ControlClient final : public MemoryBroker {
 public:
  explicit ControlClient(int fd) : fd_(fd) {}

  Status Charge(int device, uint64_t bytes) override;
  void Refund(int device, uint64_t bytes) override;
  quota::Usage Query(int device) override;

  // Hands an answer to whoever waits for it; false: the message is no answer.
  bool TakeAnswer(const ControlMessage& message);
  // The supervisor is gone: nobody waits any longer.
  void End();
  int fd() const { return fd_; }

 private:
  Status Ask(ControlMessage question, ControlMessage* answer);

  const int fd_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<uint64_t, ControlMessage> waiting_;  // type kNone: no answer yet
  uint64_t last_id_ = 0;
  bool ended_ = false;
};

}  // namespace farcall::server
