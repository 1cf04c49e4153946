// SPDX-License-Identifier: Apache-2.0
// nvJitLink by the names that its libraries export under every version of theirs; its own header
// gives each name its version's.
#pragma once

#define NVJITLINK_NO_INLINE
#include <nvJitLink.h>

extern "C" {
nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle*, uint32_t, const char**);
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle*);
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle, nvJitLinkInputType, const void*, size_t,
                                 const char*);
nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle, nvJitLinkInputType, const char*);
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle);
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle, size_t*);
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle, void*);
nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle, size_t*);
nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle, char*);
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle, size_t*);
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle, char*);
nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle, size_t*);
nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle, char*);
}
