// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/error_map.h"

namespace farcall::client {

CUresult MapConnectError(Code code) {
  switch (code) {
    case Code::kOk:
      return CUDA_SUCCESS;
    case Code::kRefused:
      return CUDA_ERROR_NOT_PERMITTED;
    case Code::kQuotaExceeded:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case Code::kMalformed:
    case Code::kUnsupported:
      return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    default:
      return CUDA_ERROR_NO_DEVICE;
  }
}

CUresult MapSessionError(Code code) {
  switch (code) {
    case Code::kOk:
      return CUDA_SUCCESS;
    case Code::kInvalid:
      return CUDA_ERROR_INVALID_VALUE;
    case Code::kQuotaExceeded:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case Code::kUnsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case Code::kTimeout:
      return CUDA_ERROR_TIMEOUT;
    default:
      return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
}

bool IsSticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
      return true;
    default:
      return false;
  }
}

}  // namespace farcall::client
