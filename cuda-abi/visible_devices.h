// SPDX-License-Identifier: Apache-2.0
// Which devices a process sees, and in what order: CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::cuda_abi {

struct PhysicalDevice {
  std::string uuid;        // UuidText
  std::string pci_bus_id;  // as cuDeviceGetPCIBusId writes it
};

std::string UuidText(const std::array<uint8_t, 16>& uuid);

// Indices into `devices`, which stand fastest first. `order` PCI_BUS_ID counts them by their place
// on the bus. `list` nullptr = all; else numbers, or UUIDs or their unambiguous beginnings (the
// first entry says which), up to the first entry that names no device; a device named twice means
// none.
//   Source  CUDA Programming Guide 13.0, environment variables; what it leaves open is what PyTorch
//           expects of CUDA (torch.cuda.device_count)
std::vector<int> VisibleDevices(const std::vector<PhysicalDevice>& devices, const char* order,
                                const char* list);

}  // namespace farcall::cuda_abi
