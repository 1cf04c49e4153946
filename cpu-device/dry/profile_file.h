// SPDX-License-Identifier: Apache-2.0
// Cards as data: a file of `name = value` lines per card.
#pragma once

#include <string>

#include "cpu-device/driver/profile.h"

namespace farcall::cpu_device::dry {

inline constexpr char kDefaultProfile[] = "h100";

// Fills `profile` from `folder`/`name`.profile, or from the file `name` if that holds a slash.
//   Errors  false with a reason in `error`: no such profile (and which there are), an unknown
//   setting, a value that is none
bool ReadProfile(const std::string& folder, const std::string& name, Profile* profile,
                 std::string* error);

}  // namespace farcall::cpu_device::dry
