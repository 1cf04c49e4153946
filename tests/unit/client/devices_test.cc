// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "client-shim/core/session_face.h"

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

}  // namespace
}  // namespace farcall::client
