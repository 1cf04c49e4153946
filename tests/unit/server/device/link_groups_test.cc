// SPDX-License-Identifier: Apache-2.0
#include "server/device/link_groups.h"

#include <gtest/gtest.h>

#include <utility>

namespace farcall::server {
namespace {

using Groups = std::vector<std::optional<uint32_t>>;

// All reach one another; those of `links` by NVLink.
std::vector<DeviceSnapshot> Devices(size_t count,
                                    const std::vector<std::pair<size_t, size_t>>& links) {
  std::vector<DeviceSnapshot> devices(count);
  for (size_t i = 0; i < count; ++i) {
    devices[i].peer_access.assign(count, kPeerAccess);
    devices[i].peer_access[i] = 0;
  }
  for (auto [a, b] : links) devices[a].peer_access[b] |= kPeerAtomics;
  return devices;
}

TEST(LinkGroups, AreThoseJoinedByNativeAtomics) {
  EXPECT_EQ(LinkGroupsOf(Devices(4, {{0, 2}, {2, 0}, {1, 3}, {3, 1}})), (Groups{0, 1, 0, 1}));
}

TEST(LinkGroups, AChainIsOneAndWhoIsAloneIsInNone) {
  EXPECT_EQ(LinkGroupsOf(Devices(5, {{4, 1}, {1, 3}})), (Groups{{}, 0, {}, 0, 0}));
}

TEST(LinkGroups, PeersByPciAreInNone) {
  EXPECT_EQ(LinkGroupsOf(Devices(2, {})), (Groups{{}, {}}));
  EXPECT_EQ(LinkGroupsOf(Devices(1, {})), Groups(1));
  EXPECT_EQ(LinkGroupsOf({}), Groups());
}

// As of a MIG instance: it says less than there are devices.
TEST(LinkGroups, WhatIsNotToldIsNoLink) {
  std::vector<DeviceSnapshot> devices = Devices(2, {{0, 1}, {1, 0}});
  for (DeviceSnapshot& device : devices) device.peer_access.assign(1, 0);
  EXPECT_EQ(LinkGroupsOf(devices), (Groups{{}, {}}));
}

}  // namespace
}  // namespace farcall::server
