// SPDX-License-Identifier: Apache-2.0
// The server counts granted memory as used; what of it nobody has allocated here is free all the
// same.
#pragma once

#include <cstddef>
#include <vector>

#include "generated/proto/nvml_call.h"

namespace farcall::nvml {

// Corrects a fresh answer about this process's memory.
void CorrectOwn(NvmlCall call, int device, std::vector<std::byte>* outputs);

}  // namespace farcall::nvml
