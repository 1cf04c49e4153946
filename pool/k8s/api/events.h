// SPDX-License-Identifier: Apache-2.0
// Events that `kubectl describe` shows with an object.
#pragma once

#include <set>
#include <string>

#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

struct EventOn {
  std::string api_version, kind, space, name, uid;
};

// Of one thread. An event is one object of the API however often it is told, by server-side apply:
// its name is made of what it says.
class Events final {
 public:
  explicit Events(ApiClient* api) : api_(api) {}

  // Tells once, as long as this lives; what the API server does not take is lost.
  //   type  Normal or Warning
  void Tell(const EventOn& about, const char* type, const std::string& reason,
            const std::string& message);

 private:
  ApiClient* const api_;
  std::set<std::string> posted_;
};

}  // namespace farcall::k8s
