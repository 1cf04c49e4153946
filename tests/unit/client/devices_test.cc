// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "client-shim/core/memory/host_window.h"
#include "client-shim/core/session/session.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {
namespace {

// Of servers that welcome so; the devices refer to the sessions for ever.
void LoadFrom(const std::vector<Welcome>& welcomes) {
  std::vector<Session*> sessions;
  for (const Welcome& welcome : welcomes) sessions.push_back(new Session(welcome, "test"));
  LoadDevices(sessions);
}

TEST(WireDevice, IsTheServersOrdinal) {
  Welcome welcome;
  welcome.devices.resize(3);
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  LoadFrom({welcome});
  unsetenv("CUDA_VISIBLE_DEVICES");
  CUresult error = CUDA_ERROR_UNKNOWN;
  EXPECT_EQ(WireDevice(0, &error), 2);
  EXPECT_EQ(error, CUDA_SUCCESS);
  EXPECT_EQ(WireDevice(1, &error), 0);
  for (int none : {2, -1, 77}) {
    EXPECT_EQ(WireDevice(none, &error), -1);
    EXPECT_EQ(error, CUDA_ERROR_INVALID_DEVICE);
  }
  LoadFrom({});
}

TEST(WireDevice, CountsFromEachServersFirst) {
  Welcome one, two;
  one.devices.resize(1);
  two.devices.resize(2);
  LoadFrom({one, two});
  ASSERT_EQ(VisibleDeviceCount(), 3);
  CUresult error = CUDA_ERROR_UNKNOWN;
  for (const auto& [device, index] : {std::pair(0, 0), {1, 0}, {2, 1}})
    EXPECT_EQ(WireDevice(device, &error), index);
  EXPECT_NE(FindDevice(0)->session, FindDevice(1)->session);
  EXPECT_EQ(FindDevice(1)->session, FindDevice(2)->session);
  EXPECT_EQ(DeviceOfServer(FindDevice(0)->session, 0), 0);
  EXPECT_EQ(DeviceOfServer(FindDevice(1)->session, 1), 2);
  EXPECT_EQ(DeviceOfServer(FindDevice(0)->session, 1), -1);
  LoadFrom({});
}

TEST(DeviceAttributes, TellOfMappedMemoryWhereTheServerMirrorsIt) {
  for (uint64_t features : {uint64_t{0}, FeatureBit(SessionFeature::kMirrors)}) {
    Welcome welcome;
    welcome.features = features;
    welcome.devices.resize(1);
    welcome.devices[0].attributes.assign(CU_DEVICE_ATTRIBUTE_MAX, 1);
    LoadFrom({welcome});
    const int expected = features != 0 && HostAddresses().available() ? 1 : 0;
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), expected);
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), expected);
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  }
  LoadFrom({});
}

}  // namespace
}  // namespace farcall::client
