// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a host are joined by NVLink.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/handshake/handshake.h"

namespace farcall::server {

// By device, its group's number; none: it is joined to no other. Told by native atomics between two
// devices, which drivers offer over NVLink alone, NVSwitch included. A chain of links is one group.
std::vector<std::optional<uint32_t>> LinkGroupsOf(const std::vector<DeviceSnapshot>& devices);

}  // namespace farcall::server
