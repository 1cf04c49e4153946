// SPDX-License-Identifier: Apache-2.0
// From what cuModuleLoadData is given to the PTX text this device can execute.
#pragma once

#include <cstdint>
#include <string>

#include "cpu-device/driver/api.h"

namespace farcall::cpu_device {

// The PTX a device of compute capability `cc` (130 for 13.0) takes from `image`: a fatbin wrapper
// or container, or PTX text.
//   Errors  NO_BINARY_FOR_GPU (machine code only), INVALID_IMAGE (not a kernel image, broken
//   payload); reason in `error`
CUresult ExtractPtx(const void* image, uint32_t cc, std::string* ptx, std::string* error);

}  // namespace farcall::cpu_device
