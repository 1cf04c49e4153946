// SPDX-License-Identifier: Apache-2.0
// Programs whose claim has no place yet: one thread looks after all of them, and each is answered
// once, when it can be led to its host or need not wait any longer.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pool/service/service.h"
#include "proto/handshake/exchange_keys.h"
#include "sync/cond_var.h"
#include "transport/channel.h"
#include "transport/sync.h"

namespace farcall::pool {

class WaitingPrograms {
 public:
  struct Program {
    std::unique_ptr<Channel> channel;
    AnswerKey key;
    std::string claim;
    bool is_own = false;  // the claim was made for it, and goes when it goes
    Clock::time_point until, look_at;
  };

  explicit WaitingPrograms(Service* service) : service_(service) {}
  ~WaitingPrograms() { Stop(); }

  // Errors  kUnavailable
  Status Start();
  void Stop();
  // Answers at once if its claim has a place, or if too many wait.   Thread  any
  void Add(Program program);

 private:
  using Programs = std::list<Program>;
  void Loop();
  void Sweep();
  bool LookAfterSome();  // true: more are due
  // True: it has been led to its host.
  bool Answer(Program& program);
  // What ends its waiting; nothing: it waits on.
  std::optional<Status> Look(Program& program);
  void GiveUp(const Program& program, const std::string& why);
  std::optional<Redirect> Lead(const std::string& claim);

  Service* const service_;
  WorkerThread thread_;
  std::mutex mutex_;  // all below
  CondVar came_;
  Programs programs_;
  size_t looked_at_ = 0;  // those that are not in it meanwhile
  bool stopping_ = false;
};

}  // namespace farcall::pool
