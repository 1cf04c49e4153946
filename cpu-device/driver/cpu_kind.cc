// SPDX-License-Identifier: Apache-2.0
// The CPU device: executes PTX.
#include "cpu-device/driver/kind.h"
#include "cpu-device/exec/device_time.h"
#include "cuda-abi/device_time.h"

namespace farcall::cpu_device {
namespace {

bool ReadProfile(Profile* profile) {
  *profile = ProfileFromEnvironment();
  return true;
}

uint64_t UsedNs(int device) {
  return DeviceThreadTime(device) / ThreadsOfDevices();
}

constexpr cuda_abi::DeviceTimeTable kDeviceTime = {sizeof(cuda_abi::DeviceTimeTable), &UsedNs};

}  // namespace

const DeviceKind kDeviceKind = {"cpu-device", false, true, &ReadProfile, &kDeviceTime};

}  // namespace farcall::cpu_device
