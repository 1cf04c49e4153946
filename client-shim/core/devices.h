// SPDX-License-Identifier: Apache-2.0
// The devices an application sees: the server's snapshot, filtered and ordered by
// CUDA_VISIBLE_DEVICES.
#pragma once

#include <string>
#include <vector>

#include "proto/handshake.h"

namespace farcall::client {

struct Device {
  int server_index = 0;
  const DeviceSnapshot* snapshot = nullptr;
  // As the application sees it: 0 for what the device has but a remote one cannot give yet.
  int Attribute(int id) const;
};

// `welcome` must live for ever.
void LoadDevices(const Welcome& welcome);
int VisibleDeviceCount();
// nullptr: no such device.
const Device* FindDevice(int ordinal);
// As the application counts; -1: it does not see that one.
int DeviceOfServer(int server_index);

// CUDA_VISIBLE_DEVICES over the given uuids: server indices in order, ending before the first entry
// that names no device; a device named twice means none at all. `text` nullptr = all.
std::vector<int> SelectDevices(const char* text, const std::vector<std::string>& uuids);
std::string UuidText(const std::array<uint8_t, 16>& uuid);

}  // namespace farcall::client
