// SPDX-License-Identifier: Apache-2.0
// Device code inside what a host compiler's tools make: an object file, or an archive of them
// (libcudadevrt.a). Bytes may be anybody's.
#pragma once

#include <string>
#include <vector>

#include "cuda-abi/image.h"

namespace farcall::cpu_device::images {

// The containers of kernel images in `file`, which is an ar archive or an ELF object; none where no
// member has any. They point into `file`.
//   Errors  false with a reason in `error`: neither, or what its headers say is not inside
bool ContainersOfHostCode(cuda_abi::Bytes file, std::vector<cuda_abi::Bytes>* containers,
                          std::string* error);

}  // namespace farcall::cpu_device::images
