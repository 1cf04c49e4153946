// SPDX-License-Identifier: Apache-2.0
// Where a host has several NUMA nodes: a worker's threads stay on those of its devices, and so does
// the memory that they touch first.
#pragma once

#include <string>
#include <vector>

namespace farcall::server {

// The processors of the node that a device is attached to, as `sysfs` (the mount point of sysfs)
// has it. Empty: it has none, or none that is known.
//   `pci_bus_id`  as cuDeviceGetPCIBusId writes it
std::vector<int> ProcessorsNear(const std::string& sysfs, const std::string& pci_bus_id);

// Lets this thread, and those it makes from now on, run on the processors of all nodes of these
// devices alone, of those that it may use. False: nothing was changed, as a device has no node, or
// none of their processors may be used.
bool StayNear(const std::string& sysfs, const std::vector<std::string>& pci_bus_ids);

}  // namespace farcall::server
