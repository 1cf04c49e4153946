// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/visible_devices.h"

#include <gtest/gtest.h>

namespace farcall::cuda_abi {
namespace {

using Numbers = std::vector<int>;

const std::vector<PhysicalDevice> kDevices = {
    {"GPU-aa000000-0000-0000-0000-000000000000", "0000:41:00.0"},
    {"GPU-ab000000-0000-0000-0000-000000000000", "0000:03:00.0"},
    {"GPU-cc000000-0000-0000-0000-000000000000", "0000:3F:00.0"}};

Numbers Visible(const char* list) {
  return VisibleDevices(kDevices, nullptr, list);
}

TEST(VisibleDevices, AllWithoutTheVariable) {
  EXPECT_EQ(Visible(nullptr), (Numbers{0, 1, 2}));
}

TEST(VisibleDevices, OrderIsTheLists) {
  EXPECT_EQ(Visible("2,0"), (Numbers{2, 0}));
}

TEST(VisibleDevices, BlanksDoNotCount) {
  EXPECT_EQ(Visible(" 2 , 0\t"), (Numbers{2, 0}));
  EXPECT_EQ(Visible(" GPU-cc , GPU-ab "), (Numbers{2, 1}));
  EXPECT_TRUE(Visible("  ").empty());
}

TEST(VisibleDevices, EndsBeforeTheFirstThatIsNone) {
  EXPECT_EQ(Visible("1,7,0"), (Numbers{1}));
  EXPECT_EQ(Visible("1,-1,0"), (Numbers{1}));
  EXPECT_EQ(Visible("1,99999999999999999999,0"), (Numbers{1}));
  EXPECT_EQ(Visible("1,,0"), (Numbers{1}));
  EXPECT_EQ(Visible("1,"), (Numbers{1}));
  EXPECT_TRUE(Visible("").empty());
  EXPECT_TRUE(Visible("-1").empty());
  EXPECT_TRUE(Visible("none").empty());
  EXPECT_TRUE(Visible("NoDevFiles").empty());
}

TEST(VisibleDevices, ADeviceTwiceMeansNone) {
  EXPECT_TRUE(Visible("0,1,0").empty());
  EXPECT_TRUE(Visible("GPU-aa,GPU-aa000000").empty());
}

TEST(VisibleDevices, TakesAUuidOrItsUnambiguousBeginning) {
  EXPECT_EQ(Visible("GPU-cc,gpu-AB"), (Numbers{2, 1}));
  EXPECT_EQ(Visible("GPU-cc000000-0000-0000-0000-000000000000"), (Numbers{2}));
  EXPECT_EQ(Visible("GPU-cc,GPU-a,0"), (Numbers{2}));
  EXPECT_TRUE(Visible("GPU-").empty());
  EXPECT_TRUE(Visible("GPU-cc000000-0000-0000-0000-0000000000001").empty());
}

TEST(VisibleDevices, TheFirstEntrySaysWhetherNumbersOrUuidsFollow) {
  EXPECT_EQ(Visible("0,GPU-cc"), (Numbers{0}));
  EXPECT_EQ(Visible("GPU-cc,0"), (Numbers{2}));
}

TEST(VisibleDevices, PartsOfADeviceAreNone) {
  EXPECT_TRUE(Visible("MIG-GPU-aa000000-0000-0000-0000-000000000000/1/0").empty());
  EXPECT_EQ(Visible("0,MIG-aa000000-0000-0000-0000-000000000000"), (Numbers{0}));
}

TEST(VisibleDevices, AreCountedByTheirPlaceOnTheBusIfAsked) {
  EXPECT_EQ(VisibleDevices(kDevices, "PCI_BUS_ID", nullptr), (Numbers{1, 2, 0}));
  EXPECT_EQ(VisibleDevices(kDevices, "PCI_BUS_ID", "2,0"), (Numbers{0, 1}));
  EXPECT_EQ(VisibleDevices(kDevices, "PCI_BUS_ID", "GPU-cc,GPU-ab"), (Numbers{2, 1}));
  EXPECT_EQ(VisibleDevices(kDevices, "FASTEST_FIRST", nullptr), (Numbers{0, 1, 2}));
}

TEST(UuidText, HasNvidiasForm) {
  EXPECT_EQ(UuidText({0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
            "GPU-aa010203-0405-0607-0809-0a0b0c0d0e0f");
}

}  // namespace
}  // namespace farcall::cuda_abi
