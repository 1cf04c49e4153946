// SPDX-License-Identifier: Apache-2.0
// A failed call's code, and the line that ncclGetLastError and the log give for it.
#pragma once

#include "client-shim/nccl/base/api.h"

namespace farcall::nccl {

// Keeps the message for this thread, logs it, returns `result`.
ncclResult_t Fail(ncclResult_t result, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
// The last message of this thread, "" if none.
const char* LastError();

}  // namespace farcall::nccl

#define FARCALL_NCCL_TRY(call)                                           \
  do {                                                                   \
    if (ncclResult_t tried = (call); tried != ncclSuccess) return tried; \
  } while (false)
