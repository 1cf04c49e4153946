// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "client-shim/core/session_face.h"

namespace farcall::client {
namespace {

const std::vector<std::string> kUuids = {"GPU-aa000000-0000-0000-0000-000000000000",
                                         "GPU-ab000000-0000-0000-0000-000000000000",
                                         "GPU-cc000000-0000-0000-0000-000000000000"};

TEST(VisibleDevices, AllWithoutTheVariable) {
  EXPECT_EQ(SelectDevices(nullptr, kUuids), (std::vector<int>{0, 1, 2}));
}

TEST(VisibleDevices, OrderIsTheLists) {
  EXPECT_EQ(SelectDevices("2, 0", kUuids), (std::vector<int>{2, 0}));
}

TEST(VisibleDevices, EndsBeforeTheFirstThatIsNone) {
  EXPECT_EQ(SelectDevices("1,7,0", kUuids), (std::vector<int>{1}));
  EXPECT_EQ(SelectDevices("1,-1,0", kUuids), (std::vector<int>{1}));
  EXPECT_TRUE(SelectDevices("", kUuids).empty());
  EXPECT_TRUE(SelectDevices("none", kUuids).empty());
}

TEST(VisibleDevices, ADeviceTwiceMeansNone) {
  EXPECT_TRUE(SelectDevices("0,1,0", kUuids).empty());
}

TEST(VisibleDevices, TakesAUuidOrItsUnambiguousBeginning) {
  EXPECT_EQ(SelectDevices("GPU-cc,gpu-AB", kUuids), (std::vector<int>{2, 1}));
  EXPECT_EQ(SelectDevices("GPU-cc,GPU-a,0", kUuids), (std::vector<int>{2}));
}

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

TEST(UuidText, HasNvidiasForm) {
  EXPECT_EQ(UuidText({0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
            "GPU-aa010203-0405-0607-0809-0a0b0c0d0e0f");
}

}  // namespace
}  // namespace farcall::client
