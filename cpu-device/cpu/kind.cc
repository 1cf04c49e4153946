// SPDX-License-Identifier: Apache-2.0
// The CPU device: executes PTX, and by its profile skips what is machine code alone.
#include "cpu-device/driver/base/kind.h"

#include <cstdlib>
#include <cstring>

#include "cpu-device/cpu/skipped.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/base/profile_file.h"
#include "cpu-device/exec/device_time.h"
#include "cuda-abi/device_time.h"

namespace farcall::cpu_device {
namespace {

const char* Variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// As 13.0.profile has it: a libcuda.so.1 without the folder beside it is still this device.
Profile Defaults() {
  Profile profile = HostProfile();
  profile.shared_per_block_optin = 227 << 10;
  profile.shared_per_multiprocessor = 228 << 10;
  profile.clusters = profile.multicast = true;
  return profile;
}

// What single variables say against the profile.
bool Override(Profile* profile, std::string* error) {
  if (const char* memory = getenv("FARCALL_CPU_MEM")) {
    uint64_t bytes = 0;
    if (!ParseBytes(memory, &bytes) || bytes < kMinMemoryBytes) {
      *error =
          std::string("FARCALL_CPU_MEM=") + memory + ": want a size of 16MiB or more, like 8GiB";
      return false;
    }
    profile->memory_bytes = bytes;
  }
  return ReadSetting("FARCALL_CPU_SASS", "sass", profile, error) &&
         ReadSetting("FARCALL_CPU_WARPS", "warps", profile, error) &&
         ReadDeviceCount("FARCALL_CPU_DEVICES", &profile->devices, error);
}

bool ReadProfile(Profile* profile) {
  *profile = Defaults();
  std::string error;
  const char* wanted = Variable("FARCALL_CPU_PROFILE");
  if (wanted != nullptr && !ReadProfileFile(ProfileFolder(), wanted, profile, &error)) {
    Log(LogLevel::kError, "FARCALL_CPU_PROFILE=%s: %s", wanted, error.c_str());
    return false;
  }
  if (!Override(profile, &error)) {
    Log(LogLevel::kError, "%s", error.c_str());
    return false;
  }
  if (!profile->card.empty()) profile->name += " (" + profile->card + ")";
  if (profile->skips_machine_code) {
    profile->name += ", skips machine code";
    AnnounceSkipping();
  }
  return true;
}

constexpr cuda_abi::DeviceTimeTable kDeviceTime = {sizeof(cuda_abi::DeviceTimeTable),
                                                   &DeviceBusyTime};

}  // namespace

const DeviceKind kDeviceKind = {"cpu-device", true,         &ReadProfile,
                                &LoadSkipped, &kDeviceTime, &SkippedKernels};

}  // namespace farcall::cpu_device
