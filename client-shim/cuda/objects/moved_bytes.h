// SPDX-License-Identifier: Apache-2.0
// Progress of what the lanes carry (core/session/slow_step.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "client-shim/core/session/session.h"
#include "client-shim/core/session/slow_step.h"

namespace farcall::client {

using LinkCounter = uint64_t Link::Counters::*;

// Bytes that the present session's link has moved since this call, whoever moved them.
inline std::function<uint64_t()> MovedBytes(LinkCounter counter) {
  const Link* link = &CurrentSession()->link();
  return [link, counter, before = link->counters().*counter] {
    return link->counters().*counter - before;
  };
}

// A copy that the program waits for.
class CopyStep {
 public:
  CopyStep(uint64_t bytes, const char* what, LinkCounter counter) {
    constexpr uint64_t kLeastBytes = 16u << 20;  // less takes no second
    if (bytes >= kLeastBytes && ShowsProgress()) step_.emplace(what, bytes, MovedBytes(counter));
  }

 private:
  std::optional<SlowStep> step_;
};

}  // namespace farcall::client
