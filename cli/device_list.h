// SPDX-License-Identifier: Apache-2.0
// The devices behind an endpoint, as a table for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/find_server.h"

namespace farcall::cli {

// The head, then a line a device.
std::vector<std::string> DeviceLines(const QueryAnswer& answer);
nlohmann::ordered_json DeviceList(const FoundServer& server, const QueryAnswer& answer);

}  // namespace farcall::cli
