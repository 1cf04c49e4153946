// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/options/device_mode.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

DeviceModes Modes(const char* text) {
  Result<DeviceModes> modes = ParseModes(text);
  EXPECT_TRUE(modes.ok()) << text;
  return modes.ok() ? *modes : DeviceModes();
}

TEST(DeviceMode, IsOneForAllOrEachItsOwn) {
  EXPECT_EQ(Modes("mps").Of(7), DeviceMode::kMps);
  DeviceModes modes = Modes("0=exclusive,2=mps");
  EXPECT_EQ(modes.Of(0), DeviceMode::kExclusive);
  EXPECT_EQ(modes.Of(1), DeviceMode::kSlice);
  EXPECT_EQ(modes.Of(2), DeviceMode::kMps);
  EXPECT_TRUE(modes.Any(DeviceMode::kMps));
  EXPECT_FALSE(modes.Any(DeviceMode::kMig));
}

TEST(DeviceMode, WhatMakesNoSenseIsRefused) {
  for (const char* text : {"", "fast", "0", "0=", "=mps", "0=mps,", ",0=mps", "0=mps,0=slice",
                           "-1=mps", "0=mps 1=slice", "x=mps", "mps,slice"})
    EXPECT_EQ(ParseModes(text).status().code(), Code::kInvalid) << text;
}

TEST(DeviceMode, OnlyNvidiasDriverHasMpsAndMig) {
  EXPECT_TRUE(CheckModes(Modes("mps"), 2, "cuda", false).ok());
  EXPECT_TRUE(CheckModes(Modes("mig"), 2, "cuda", false).ok());
  EXPECT_FALSE(CheckModes(Modes("mps"), 2, "cpu", false).ok());
  EXPECT_FALSE(CheckModes(Modes("mig"), 2, "dry", false).ok());
  EXPECT_TRUE(CheckModes(Modes("exclusive"), 2, "cpu", false).ok());
}

TEST(DeviceMode, AProcessIsAnMpsClientWithAllItsDevicesOrNone) {
  EXPECT_TRUE(CheckModes(Modes("0=mps,1=mps"), 2, "cuda", false).ok());
  EXPECT_FALSE(CheckModes(Modes("0=mps,1=slice"), 2, "cuda", false).ok());
  EXPECT_FALSE(CheckModes(Modes("0=mps"), 2, "cuda", false).ok());
  EXPECT_TRUE(CheckModes(Modes("0=mps,1=slice"), 2, "cuda", true).ok());
  EXPECT_FALSE(CheckModes(Modes("0=mig,1=slice"), 2, "cuda", true).ok());
}

TEST(DeviceMode, ThereHasToBeSuchADevice) {
  EXPECT_FALSE(CheckModes(Modes("2=exclusive"), 2, "cpu", false).ok());
  EXPECT_TRUE(CheckModes(Modes("1=exclusive"), 2, "cpu", false).ok());
}

}  // namespace
}  // namespace farcall::server
