// SPDX-License-Identifier: Apache-2.0
// How much device memory the variables of a kernel image take: what a driver does not tell.
#pragma once

#include <cstdint>

#include "cuda-abi/image.h"

namespace farcall::cpu_device::images {

// Of what a driver takes from `image` (a container, a cubin or PTX text from an untrusted peer) for
// compute capability `cc` (130 for 13.0), in bytes; 0 for what no driver loads.
//   Thread  any
uint64_t VariableBytes(cuda_abi::Bytes image, uint32_t cc, cuda_abi::CodeTaste taste);

}  // namespace farcall::cpu_device::images
