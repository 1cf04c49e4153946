// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's C interface that we offer: types and constants as its documentation has them.
// The version is that of the interface, 2.30.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

// Begins with its own size; what follows the magic number tunes NCCL's own machinery.
typedef struct {
  size_t size;
  unsigned magic, version;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  float estimatedTime;
} ncclSimInfo_t;

struct CUstream_st;
typedef struct CUstream_st* ncclStream_t;  // cudaStream_t and CUstream alike

}  // extern "C"
