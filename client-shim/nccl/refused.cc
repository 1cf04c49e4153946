// SPDX-License-Identifier: Apache-2.0
// NCCL's calls that are not served: there, so that whoever links to them loads; they say so when
// called.
#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/entries.h"

namespace {
ncclResult_t Refuse(const char* name) {
  return farcall::nccl::Fail(ncclInvalidUsage, "%s is not supported", name);
}
}  // namespace

#define FARCALL_NCCL_REFUSED(name, ...)                \
  FARCALL_NCCL_EXPORT ncclResult_t name(__VA_ARGS__) { \
    return Refuse(#name);                              \
  }
FARCALL_NCCL_REFUSED(ncclCommGetUniqueId, ncclComm_t, ncclUniqueId*)
FARCALL_NCCL_REFUSED(ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*,
                     ncclConfig_t*)
FARCALL_NCCL_REFUSED(ncclCommShrink, ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)
FARCALL_NCCL_REFUSED(ncclCommRevoke, ncclComm_t, int)
FARCALL_NCCL_REFUSED(ncclCommSuspend, ncclComm_t, int)
FARCALL_NCCL_REFUSED(ncclCommResume, ncclComm_t)
FARCALL_NCCL_REFUSED(ncclCommMemStats, ncclComm_t, int, uint64_t*)
FARCALL_NCCL_REFUSED(ncclCommQueryProperties, ncclComm_t, void*)
FARCALL_NCCL_REFUSED(ncclCommWindowRegister, ncclComm_t, void*, size_t, ncclWindow_t*, int)
FARCALL_NCCL_REFUSED(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t)
FARCALL_NCCL_REFUSED(ncclWinGetUserPtr, ncclComm_t, ncclWindow_t, void**)
FARCALL_NCCL_REFUSED(ncclDevCommCreate, ncclComm_t, const void*, void*)
FARCALL_NCCL_REFUSED(ncclDevCommDestroy, ncclComm_t, const void*)
FARCALL_NCCL_REFUSED(ncclGetLsaDevicePointer, ncclWindow_t, size_t, int, void**)
FARCALL_NCCL_REFUSED(ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**)
FARCALL_NCCL_REFUSED(ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void**)
FARCALL_NCCL_REFUSED(ncclPutSignal, const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t,
                     int, int, unsigned, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclSignal, int, int, int, unsigned, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclWaitSignal, int, const void*, ncclComm_t, CUstream)
FARCALL_NCCL_REFUSED(ncclGroupSimulateEnd, ncclSimInfo_t*)
