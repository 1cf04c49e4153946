// SPDX-License-Identifier: Apache-2.0
// The thread that owns the core: takes events, applies them, stores what they changed in one commit
// for all that came meanwhile, and only then answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pool/core/core.h"
#include "pool/store.h"
#include "proto/pool.pb.h"

namespace farcall::pool {

class Controller {
 public:
  // Called on the controller's thread; must not block.
  using Done = std::function<void(Effects&)>;
  using Nudge = std::function<void(const std::string& host)>;

  Controller(std::unique_ptr<Store> store, const Loaded& loaded, const Timing& timing);
  ~Controller();

  // Hosts to be asked for a heartbeat are told to it; before Start.
  void OnNudge(Nudge nudge) { nudge_ = std::move(nudge); }
  void Start();
  void Stop();

  // All below: any thread. What they return is stored.
  void Post(Event event, Done done);
  Effects Apply(Event event);
  void Read(const std::function<void(const Core& core, Ms now)>& use);
  std::optional<Claim> Find(const std::string& id, Host* host = nullptr);
  // Waits until the claim can be used or is over, at most so long; then as it is.
  std::optional<Claim> WaitBound(const std::string& id, Ms longest);
  // Events after that number, waiting for the next one at most so long.
  std::vector<v1::Event> EventsAfter(uint64_t number, Ms longest);

  uint64_t term() const { return term_; }

 private:
  struct Item {
    std::optional<Event> event;
    std::function<void(const Core&, Ms)> read;
    Done done;
  };
  void Loop();
  void Handle(std::vector<Item> items);
  void Note(const Effects& effects);

  const std::unique_ptr<Store> store_;
  const uint64_t term_;
  Core core_;  // of the thread alone
  Nudge nudge_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable came_, changed_;
  std::deque<Item> queue_;
  std::deque<v1::Event> events_;
  uint64_t last_event_ = 0, changes_ = 0;
  bool stopping_ = false;
};

// Whether sessions may be opened under it.
inline bool IsUsable(ClaimState state) {
  return state == ClaimState::kBound || state == ClaimState::kActive || state == ClaimState::kIdle;
}

}  // namespace farcall::pool
