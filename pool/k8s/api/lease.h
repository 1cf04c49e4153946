// SPDX-License-Identifier: Apache-2.0
// Which of several controllers acts: the holder of a Lease of coordination.k8s.io/v1.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "pool/k8s/api/api_client.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

// A name for this process: its host and a random number.
std::string NewLeaseIdentity();

// The Lease has to be there: so that we may change this one, and make none. Others' clocks are not
// believed: a holder is gone once its Lease has not changed for as long as it says it lasts.
//   Thread  any
class LeaseHolder final {
 public:
  struct Place {
    std::string space, name, identity;
    int seconds = 15;
  };
  // `on_change`: whether this one leads now; by the lease's own thread.
  LeaseHolder(ApiClient* api, Place place, std::function<void(bool)> on_change)
      : api_(api), place_(std::move(place)), on_change_(std::move(on_change)) {}
  ~LeaseHolder() { Stop(); }
  void Start();
  // Gives the Lease back.
  void Stop();

  // Until two thirds of the Lease's time after it was renewed last: who follows waits for all of
  // it.
  bool leads();
  // Whether somebody else was seen to hold it.
  bool is_others();

 private:
  using Clock = std::chrono::steady_clock;
  void Run();
  // Takes or renews it, if that may be.   Errors  of ApiClient
  Status Try();
  void Return();

  ApiClient* const api_;
  const Place place_;
  const std::function<void(bool)> on_change_;
  std::mutex mutex_;
  CondVar wake_;
  Clock::time_point leads_until_{};
  bool is_others_ = false, is_stopped_ = false;
  // The thread's own.
  std::string seen_;  // the version that another holder's Lease had
  Clock::time_point seen_at_{};
  std::thread thread_;
};

}  // namespace farcall::k8s
