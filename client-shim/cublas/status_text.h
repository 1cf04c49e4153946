// SPDX-License-Identifier: Apache-2.0
// The texts of cuBLAS's statuses, which are cuBLASLt's too.
#pragma once

#include <cublas_api.h>

namespace farcall::thin {

inline const char* CublasStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(code) \
  case code:       \
    return #code;
    NAME(CUBLAS_STATUS_SUCCESS)
    NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    NAME(CUBLAS_STATUS_ALLOC_FAILED)
    NAME(CUBLAS_STATUS_INVALID_VALUE)
    NAME(CUBLAS_STATUS_ARCH_MISMATCH)
    NAME(CUBLAS_STATUS_MAPPING_ERROR)
    NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    NAME(CUBLAS_STATUS_NOT_SUPPORTED)
    NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef NAME
  }
  return "";
}

inline const char* CublasStatusText(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "memory could not be allocated";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an argument has a value that is not allowed";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the device lacks what the function needs";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "device memory could not be reached";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed on the device";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the function is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "a licence is missing";
  }
  return "an unknown status";
}

}  // namespace farcall::thin
