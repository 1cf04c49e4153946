// SPDX-License-Identifier: Apache-2.0
// The dry device: loads anything, computes nothing.
#include "cpu-device/driver/kind.h"

#include <dlfcn.h>

#include <cstdlib>

#include "cpu-device/driver/log.h"
#include "cpu-device/dry/profile_file.h"

namespace farcall::cpu_device {
namespace {

// Profiles lie beside the library this code is in.
std::string ProfileFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&ProfileFolder), &info) == 0 || info.dli_fname == nullptr)
    return "profiles";
  const std::string own = info.dli_fname;
  const size_t slash = own.rfind('/');
  return (slash == std::string::npos ? "" : own.substr(0, slash + 1)) + "profiles";
}

bool ReadProfile(Profile* profile) {
  const char* wanted = getenv("FARCALL_DRY_PROFILE");
  const std::string name = wanted != nullptr && *wanted != '\0' ? wanted : dry::kDefaultProfile;
  std::string error;
  if (!dry::ReadProfile(ProfileFolder(), name, profile, &error)) {
    Log(LogLevel::kError, "FARCALL_DRY_PROFILE=%s: %s", name.c_str(), error.c_str());
    return false;
  }
  if (const char* devices = getenv("FARCALL_DRY_DEVICES")) {
    const int count = atoi(devices);
    if (count < 1 || count > 16) {
      Log(LogLevel::kError, "FARCALL_DRY_DEVICES=%s: want 1 to 16", devices);
      return false;
    }
    profile->devices = count;
  }
  Log(LogLevel::kWarn, "%s: no kernel is executed, memory holds no result", profile->name.c_str());
  return true;
}

}  // namespace

const DeviceKind kDeviceKind = {"dry-device", true, false, &ReadProfile, nullptr};

}  // namespace farcall::cpu_device
