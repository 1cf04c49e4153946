// SPDX-License-Identifier: Apache-2.0
// A ResourceClaim as the API server describes it, as far as it is of this driver. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/status.h"

namespace farcall::k8s {

// A device that the scheduler has given to one of the claim's requests.
struct GivenDevice {
  std::string request, pool, device;
  uint64_t memory_bytes = 0;  // 0: all of it
  uint32_t cores = 0;         // per cent of its time; 0: none is guaranteed
  bool is_admin = false;      // to look at it: it takes nothing of it
};

struct ResourceClaim {
  std::string space, name, uid;
  std::vector<GivenDevice> devices;                       // of this driver
  std::vector<std::pair<std::string, std::string>> pods;  // name and uid: for whom it is reserved
};

//   Errors  kMalformed (no claim), kRefused (it is not allocated, or what it has been given is not
//           what this driver offers)
Result<ResourceClaim> ReadResourceClaim(const nlohmann::json& object);

// What the devices come to as one claim of the pool: of all that are not for administrators.
struct DeviceAsk {
  uint32_t count = 0;
  uint64_t memory_bytes = 0;
  uint32_t cores = 0;
};
// nullopt: there is nothing to claim.   Errors  kRefused: they differ
Result<std::optional<DeviceAsk>> AskOf(const ResourceClaim& claim);

}  // namespace farcall::k8s
