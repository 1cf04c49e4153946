// SPDX-License-Identifier: Apache-2.0
// The NUMA node that a device is attached to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace farcall::server {

// As `sysfs` (the mount point of sysfs) has it. nullopt: it has none, or none that is known.
//   `pci_bus_id`  as cuDeviceGetPCIBusId writes it
std::optional<uint32_t> NumaNodeOf(const std::string& sysfs, const std::string& pci_bus_id);

}  // namespace farcall::server
