// SPDX-License-Identifier: Apache-2.0
// Host memory that this process and the worker both map, at the same address: over shm://, what
// CUDA allocates for the host crosses nothing, and a kernel sees what the program writes at once.
// Partner: server/memory/mirrors.cc.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace farcall::client {

// Puts such memory, zeroed, at addresses of the host window that the caller has taken. `device`
// >= 0: charged there, as managed memory is; else to the vGPU's host memory. It ends by EndMirror
// (mirror.h). A forked child does not have it.
//   Errors  NOT_SUPPORTED (the session's transport carries no descriptors, or the server shares
//           none), OUT_OF_MEMORY (the quota), the session's end
CUresult ShareHostMemory(uint64_t address, uint64_t bytes, int device);

// The caller ends it on the server.
void ForgetSharedHost(uint64_t address);
// Whether any is shared: the device may write where the host looks.
bool AnySharedHost();

}  // namespace farcall::client
