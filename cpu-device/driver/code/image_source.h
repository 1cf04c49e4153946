// SPDX-License-Identifier: Apache-2.0
// From what cuModuleLoadData is given to what a program is loaded from: PTX text, or a cubin where
// the device takes machine code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cuda-abi/image.h"

namespace farcall::cpu_device {

// What a device of compute capability `cc` (130 for 13.0) takes from `image`: a fatbin wrapper or
// container, PTX text or a cubin.
//   Errors  NO_BINARY_FOR_GPU (nothing for this device), INVALID_IMAGE (not a kernel image, broken
//   payload); reason in `error`
CUresult ExtractImage(const void* image, uint32_t cc, cuda_abi::CodeTaste taste, std::string* code,
                      std::string* error);

// The PTX that a device of `cc` takes from an object file or an archive of them, as nvcc makes
// them: a text for each that has any.
//   Errors  false with a reason in `error`: no such file, or none has PTX
bool ExtractHostCode(cuda_abi::Bytes file, uint32_t cc, std::vector<std::string>* units,
                     std::string* error);

}  // namespace farcall::cpu_device
