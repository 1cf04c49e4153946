// SPDX-License-Identifier: Apache-2.0
// The driver's own functions, asked for by name.
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

cudaError_t Call_cudaGetDriverEntryPointByVersion(Side side, const char* symbol, void** function,
                                                  unsigned int version, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr || flags > cudaEnablePerThreadDefaultStream)
    return cudaErrorInvalidValue;
  if (flags == cudaEnableDefault && side == Side::kPerThread)
    flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult result =
      g_driver.cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, &found);
  if (status != nullptr) {
    *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    // Told through the status: no error of the call's.
    if (found != CU_GET_PROC_ADDRESS_SUCCESS) return cudaSuccess;
  }
  return FromDriver(result);
}

cudaError_t Call_cudaGetDriverEntryPoint(Side side, const char* symbol, void** function,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return Call_cudaGetDriverEntryPointByVersion(side, symbol, function, FARCALL_CUDART_VERSION,
                                               flags, status);
}

}  // namespace farcall::cudart

using namespace farcall::cudart;

// What cudaGetDriverEntryPoint is inline code over in some headers: the driver's lookup itself.
extern "C" __attribute__((visibility("default"))) cudaError_t __cudaGetProcAddress(
    const char* symbol, void** function, int version, unsigned long long flags,
    CUdriverProcAddressQueryResult* status) {
  return Enter<Before::kDriver>(
      [&] { return g_driver.cuGetProcAddress_v2(symbol, function, version, flags, status); });
}
