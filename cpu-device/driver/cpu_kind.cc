// SPDX-License-Identifier: Apache-2.0
// The CPU device: executes PTX.
#include "cpu-device/driver/kind.h"

namespace farcall::cpu_device {
namespace {

bool ReadProfile(Profile* profile) {
  *profile = ProfileFromEnvironment();
  return true;
}

}  // namespace

const DeviceKind kDeviceKind = {"cpu-device", false, true, &ReadProfile};

}  // namespace farcall::cpu_device
