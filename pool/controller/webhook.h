// SPDX-License-Identifier: Apache-2.0
// Tells a URL of claims that are to lose their places: a POST of pool.proto's Event for each
// warning, and for each parking, end and return that follows.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "pool/controller/controller.h"
#include "proto/status.h"

namespace farcall::pool {

class Webhook {
 public:
  explicit Webhook(Controller* controller) : controller_(controller) {}
  ~Webhook() { Stop(); }

  // What happens from now on is told.   Errors  kInvalid (the URL)
  Status Start(const std::string& url);
  // After the controller has stopped, or within a second.
  void Stop();

 private:
  void Loop();
  // Twice at most: whoever is told has to do without what it missed.
  bool Tell(const v1::Event& event) const;

  Controller* const controller_;
  std::string base_, path_;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace farcall::pool
