// SPDX-License-Identifier: Apache-2.0
// What sets the devices built on this driver apart: the one that executes PTX, and the dry one.
#pragma once

#include <memory>
#include <string_view>

#include "cpu-device/driver/base/profile.h"
#include "cpu-device/exec/program.h"
#include "cuda-abi/image.h"

namespace farcall::cpu_device {

struct DeviceKind {
  const char* log_name;
  bool executes;  // false: kernels are checked and ordered, not run
  // What the environment asks the device to be. false: it asks for what cannot be, said in the log.
  bool (*read_profile)(Profile* profile);
  // Makes a program of a cubin, where the profile lets it be loaded.
  ExecResult (*load_machine_code)(std::string_view cubin, GlobalMemory& memory,
                                  std::unique_ptr<Program>* out);
  const void* device_time;  // cuda-abi/device_time.h's table; null: nothing runs, nothing is used
  // cuda-abi/skipped_kernels.h's table; null: every kernel is executed, or none.
  const void* (*skipped_kernels)(const Profile& profile);

  // What is taken of an image that holds PTX and machine code.
  cuda_abi::CodeTaste Taste(const Profile& profile) const {
    using enum cuda_abi::CodeTaste;
    return !executes ? kMachineCodeFirst : profile.skips_machine_code ? kPtxFirst : kPtxOnly;
  }
};

// One definition in each library.
extern const DeviceKind kDeviceKind;

}  // namespace farcall::cpu_device
