// SPDX-License-Identifier: Apache-2.0
// The PTX compiler's library, opened at the first compile.
#pragma once

#include <string>

#include "cpu-device/exec/compiler.h"

namespace farcall::cpu_device {

// Null with `error` set: there is none that fits.   Thread  any
jit::CompileFunction FindCompiler(std::string* error);

}  // namespace farcall::cpu_device
