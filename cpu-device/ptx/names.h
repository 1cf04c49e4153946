// SPDX-License-Identifier: Apache-2.0
// Reverse look-ups of opcode.h's names; kNone/kUnknown when there is no such name.
#pragma once

#include <string_view>

#include "cpu-device/ptx/opcode.h"

namespace farcall::cpu_device::ptx {

Opcode FindOpcode(std::string_view name);
Type FindType(std::string_view name);    // "f32", no dot
Space FindSpace(std::string_view name);  // "shared::cta" is kShared
// `number`: N of %envregN and %pmN, else 0.
SpecialRegister FindSpecialRegister(std::string_view name, unsigned* number);

}  // namespace farcall::cpu_device::ptx
