// SPDX-License-Identifier: Apache-2.0
// Devices as data: a file of `name = value` lines per device, of the CPU device as of the dry one.
#pragma once

#include <string>

#include "cpu-device/driver/base/profile.h"

namespace farcall::cpu_device {

// Where profiles lie: beside the library this code is in.
std::string ProfileFolder();

// Changes `profile` by `folder`/`name`.profile, or by the file `name` if that holds a slash.
//   Errors  false with one line in `error`: no such profile (and which there are), an unknown
//   setting, a value that is none (and which would be), what no device of that capability has
bool ReadProfileFile(const std::string& folder, const std::string& name, Profile* profile,
                     std::string* error);

// Changes what the file's `setting` would, by the variable; untouched where that is empty or not
// set.
//   Errors  false, said in `error`
bool ReadSetting(const char* variable, const char* setting, Profile* profile, std::string* error);

// 1 to 16, from the variable; untouched without it.   Errors  false, said in `error`
bool ReadDeviceCount(const char* variable, int* devices, std::string* error);

}  // namespace farcall::cpu_device
