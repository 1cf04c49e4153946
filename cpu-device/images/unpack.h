// SPDX-License-Identifier: Apache-2.0
// The code of one entry of a fatbin container, decompressed.
#pragma once

#include <string>

#include "cuda-abi/image.h"

namespace farcall::cpu_device::images {

// PTX text comes without its NUL.
//   Errors  false with a reason in `error`: more than 1 GiB, or what does not unpack to the size it
//   names
bool Unpack(const cuda_abi::ImageEntry& entry, std::string* code, std::string* error);

}  // namespace farcall::cpu_device::images
