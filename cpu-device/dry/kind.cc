// SPDX-License-Identifier: Apache-2.0
// The dry device: loads anything, computes nothing.
#include "cpu-device/driver/base/kind.h"

#include <cstdlib>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/base/profile_file.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/dry/cubin_program.h"

namespace farcall::cpu_device {
namespace {

constexpr const char* kDefaultProfile = "h100";

bool ReadProfile(Profile* profile) {
  const char* wanted = getenv("FARCALL_DRY_PROFILE");
  const std::string name = wanted != nullptr && *wanted != '\0' ? wanted : kDefaultProfile;
  *profile = {};
  std::string error;
  bool ok = ReadProfileFile(ProfileFolder(), name, profile, &error);
  if (ok && (profile->card.empty() || profile->memory_bytes == 0)) {
    error = "has no card or no memory; want both";
    ok = false;
  } else if (ok && profile->skips_machine_code) {
    error = "sass = skip is the CPU device's: the dry one executes nothing at all";
    ok = false;
  }
  if (!ok) {
    Log(LogLevel::kError, "FARCALL_DRY_PROFILE=%s: %s", name.c_str(), error.c_str());
    return false;
  }
  if (!ReadDeviceCount("FARCALL_DRY_DEVICES", &profile->devices, &error)) {
    Log(LogLevel::kError, "%s", error.c_str());
    return false;
  }
  profile->name = "Farcall dry device (" + profile->card + " profile), computes nothing";
  Log(LogLevel::kWarn, "%s: no kernel is executed, memory holds no result", profile->name.c_str());
  return true;
}

ExecResult LoadMachineCode(std::string_view cubin, GlobalMemory& memory,
                           std::unique_ptr<Program>* out) {
  return dry::LoadCubin(cubin, static_cast<uint32_t>(TheDriver().profile.cc()), nullptr, memory,
                        out);
}

const void* NoSkippedKernels(const Profile&) {
  return nullptr;
}

}  // namespace

const DeviceKind kDeviceKind = {"dry-device",     false,   &ReadProfile,
                                &LoadMachineCode, nullptr, &NoSkippedKernels};

}  // namespace farcall::cpu_device
