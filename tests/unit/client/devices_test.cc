// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "client-shim/core/host_window.h"
#include "client-shim/core/session_face.h"
#include "proto/session_features.h"

namespace farcall::client {
namespace {

TEST(WireDevice, IsTheServersOrdinal) {
  auto* welcome = new Welcome;  // the devices refer to it for ever
  welcome->devices.resize(3);
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  LoadDevices(*welcome);
  unsetenv("CUDA_VISIBLE_DEVICES");
  CUresult error = CUDA_ERROR_UNKNOWN;
  EXPECT_EQ(WireDevice(0, &error), 2);
  EXPECT_EQ(error, CUDA_SUCCESS);
  EXPECT_EQ(WireDevice(1, &error), 0);
  for (int none : {2, -1, 77}) {
    EXPECT_EQ(WireDevice(none, &error), -1);
    EXPECT_EQ(error, CUDA_ERROR_INVALID_DEVICE);
  }
  LoadDevices(*new Welcome);
}

TEST(DeviceAttributes, TellOfMappedMemoryWhereTheServerMirrorsIt) {
  for (uint64_t features : {uint64_t{0}, FeatureBit(SessionFeature::kMirrors)}) {
    auto* welcome = new Welcome;
    welcome->features = features;
    welcome->devices.resize(1);
    welcome->devices[0].attributes.assign(CU_DEVICE_ATTRIBUTE_MAX, 1);
    LoadDevices(*welcome);
    const int expected = features != 0 && HostAddresses().available() ? 1 : 0;
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), expected);
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), expected);
    EXPECT_EQ(FindDevice(0)->Attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  }
  LoadDevices(*new Welcome);
}

}  // namespace
}  // namespace farcall::client
