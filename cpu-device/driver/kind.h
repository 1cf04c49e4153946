// SPDX-License-Identifier: Apache-2.0
// What sets the devices built on this driver apart: the one that executes PTX, and the dry one.
#pragma once

#include "cpu-device/driver/profile.h"

namespace farcall::cpu_device {

struct DeviceKind {
  const char* log_name;
  bool takes_machine_code;  // cubins, as well as PTX
  bool executes;            // false: kernels are checked and ordered, not run
  // What the environment asks the device to be. false: it asks for what cannot be, said in the log.
  bool (*read_profile)(Profile* profile);
  const void* device_time;  // cuda-abi/device_time.h's table; null: nothing runs, nothing is used
};

// One definition in each library.
extern const DeviceKind kDeviceKind;

}  // namespace farcall::cpu_device
