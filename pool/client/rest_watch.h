// SPDX-License-Identifier: Apache-2.0
// A list of the pool's REST server that goes on with each change (?watch=1).
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "pool/client/rest_client.h"

namespace httplib {
class Client;
}

namespace farcall::pool {

//   Thread  Follow: one at a time; Stop: any
class RestWatch final {
 public:
  explicit RestWatch(PoolAddress pool) : pool_(std::move(pool)) {}

  // Tells of each event, until the server ends it, `on_event` returns false or Stop. An event has
  // at most 4 MiB, and the server says every few seconds that it is there.
  //   Errors  as RestCall
  Status Follow(
      const std::string& path,
      const std::function<bool(const std::string& kind, const std::string& json)>& on_event);
  // Ends it, now and later.
  void Stop();

 private:
  const PoolAddress pool_;
  std::mutex mutex_;
  httplib::Client* client_ = nullptr;
  bool is_stopped_ = false;
};

}  // namespace farcall::pool
