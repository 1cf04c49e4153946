// SPDX-License-Identifier: Apache-2.0
// The calls as a program sees them. NVIDIA's nccl.h serves as well; it comes with a package that
// nothing else here needs.
#pragma once

#include "client-shim/nccl/base/api.h"

extern "C" {
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           ncclStream_t);
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int root,
                        ncclComm_t, ncclStream_t);
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               ncclStream_t);
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int root, ncclComm_t,
                           ncclStream_t);
ncclResult_t ncclBcast(void*, size_t, ncclDataType_t, int root, ncclComm_t, ncclStream_t);
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, ncclStream_t);
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int peer, ncclComm_t, ncclStream_t);
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int peer, ncclComm_t, ncclStream_t);
ncclResult_t ncclAlltoAll(const void*, void*, size_t, ncclDataType_t, ncclComm_t, ncclStream_t);
ncclResult_t ncclGather(const void*, void*, size_t, ncclDataType_t, int root, ncclComm_t,
                        ncclStream_t);
ncclResult_t ncclScatter(const void*, void*, size_t, ncclDataType_t, int root, ncclComm_t,
                         ncclStream_t);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t*, void* scalar, ncclDataType_t,
                                      ncclScalarResidence_t, ncclComm_t);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t);
}
