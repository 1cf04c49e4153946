// SPDX-License-Identifier: Apache-2.0
// What cuGetErrorName and cuGetErrorString answer.
#pragma once

#include <cuda.h>

namespace farcall::cuda_abi {

// nullptr: no such code.
const char* ErrorName(CUresult error);
const char* ErrorText(CUresult error);

}  // namespace farcall::cuda_abi
