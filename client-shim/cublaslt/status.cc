// SPDX-License-Identifier: Apache-2.0
// The texts of statuses, which are cuBLAS's.
#include <cublasLt.h>

#include "client-shim/cublas/status_text.h"

#define CUBLAS_ENTRY extern "C" __attribute__((visibility("default")))

CUBLAS_ENTRY const char* cublasLtGetStatusName(cublasStatus_t status) {
  return farcall::thin::CublasStatusName(status);
}

CUBLAS_ENTRY const char* cublasLtGetStatusString(cublasStatus_t status) {
  return farcall::thin::CublasStatusText(status);
}
