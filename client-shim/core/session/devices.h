// SPDX-License-Identifier: Apache-2.0
// The devices an application sees: the server's snapshot, filtered and ordered by
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"

namespace farcall::client {

class Session;

struct Device {
  Session* session = nullptr;
  int server_index = 0;  // as its server counts
  const DeviceSnapshot* snapshot = nullptr;
  // As the application sees it: 0 for what the device has but a remote one cannot give yet.
  int Attribute(int id) const;
};

// All servers' devices, in the order of the list. Sessions live for ever.
void LoadDevices(std::span<Session* const> sessions);
// Whether each server keeps mirrors of host memory as this client does; an older one may not.
bool ServerMirrors();
int VisibleDeviceCount();
// nullptr: no such device.
const Device* FindDevice(int ordinal);
// As the application counts; -1: it does not see that one.
int DeviceOfServer(const Session* session, int server_index);

}  // namespace farcall::client
