// SPDX-License-Identifier: Apache-2.0
#include "server/device/link_groups.h"

namespace farcall::server {

namespace {

bool AreLinked(const std::vector<DeviceSnapshot>& devices, size_t a, size_t b) {
  const std::vector<uint8_t>& peers = devices[a].peer_access;
  return b < peers.size() && (peers[b] & kPeerAtomics) != 0;
}

}  // namespace

std::vector<std::optional<uint32_t>> LinkGroupsOf(const std::vector<DeviceSnapshot>& devices) {
  std::vector<std::optional<uint32_t>> groups(devices.size());
  uint32_t count = 0;
  for (size_t first = 0; first < devices.size(); ++first) {
    if (groups[first]) continue;
    std::vector<size_t> members = {first};
    for (size_t i = 0; i < members.size(); ++i)
      for (size_t other = 0; other < devices.size(); ++other)
        if (other != first && !groups[other] &&
            (AreLinked(devices, members[i], other) || AreLinked(devices, other, members[i]))) {
          groups[other] = count;
          members.push_back(other);
        }
    if (members.size() > 1) groups[first] = count++;
  }
  return groups;
}

}  // namespace farcall::server
