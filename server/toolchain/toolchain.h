// SPDX-License-Identifier: Apache-2.0
// Compilers and linkers of code run here for a client: the whole job comes in one record, with its
// long texts as blobs, and everything that there is to know of it goes back in one reply. They run
// on a helper of their own, in no context.
#pragma once

#include <cstdint>

#include "server/library/library_call.h"

namespace farcall::server {

// What nvrtc and nvJitLink are on the wire.
void Serve_nvrtcCompileProgram(LibraryCall& call);
void Serve_nvrtcGetSupportedArchs(LibraryCall& call);
int64_t NvrtcVersion(void* library);
void Serve_nvJitLinkCreate(LibraryCall& call);
void Serve_nvJitLinkComplete(LibraryCall& call);
int64_t NvJitLinkVersion(void* library);

}  // namespace farcall::server
