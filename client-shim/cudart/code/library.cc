// SPDX-License-Identifier: Apache-2.0
// cudaLibrary*: modules that the application loads by itself.
#include <vector>

#include "client-shim/cudart/code/registry.h"
#include "client-shim/cudart/convert.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

cudaError_t AsSymbol(CUresult result) {
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorSymbolNotFound : FromDriver(result);
}

}  // namespace

// The options' numbers are the driver's, JIT and library ones alike.
cudaError_t Call_cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                     cudaJitOption* jit_options, void** jit_values,
                                     unsigned int jit_count, cudaLibraryOption* options,
                                     void** values, unsigned int count) {
  return FromDriver(Lower(g_driver.cuLibraryLoadData, library, code, jit_options, jit_values,
                          jit_count, options, values, count));
}

cudaError_t Call_cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file,
                                         cudaJitOption* jit_options, void** jit_values,
                                         unsigned int jit_count, cudaLibraryOption* options,
                                         void** values, unsigned int count) {
  return FromDriver(Lower(g_driver.cuLibraryLoadFromFile, library, file, jit_options, jit_values,
                          jit_count, options, values, count));
}

cudaError_t Call_cudaLibraryUnload(cudaLibrary_t library) {
  return FromDriver(Lower(g_driver.cuLibraryUnload, library));
}

cudaError_t Call_cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                      const char* name) {
  if (kernel == nullptr) return cudaErrorInvalidValue;
  CUresult result = Lower(g_driver.cuLibraryGetKernel, kernel, library, name);
  if (result == CUDA_SUCCESS) RememberKernel(*kernel);
  return AsSymbol(result);
}

cudaError_t Call_cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library,
                                      const char* name) {
  return AsSymbol(Lower(g_driver.cuLibraryGetGlobal, address, bytes, library, name));
}

cudaError_t Call_cudaLibraryGetManaged(void** address, size_t* bytes, cudaLibrary_t library,
                                       const char* name) {
  return AsSymbol(Lower(g_driver.cuLibraryGetManaged, address, bytes, library, name));
}

cudaError_t Call_cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library,
                                               const char* name) {
  return AsSymbol(Lower(g_driver.cuLibraryGetUnifiedFunction, function, library, name));
}

cudaError_t Call_cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library) {
  return FromDriver(Lower(g_driver.cuLibraryGetKernelCount, count, library));
}

cudaError_t Call_cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count,
                                             cudaLibrary_t library) {
  CUresult result = Lower(g_driver.cuLibraryEnumerateKernels, kernels, count, library);
  unsigned found = 0;
  if (result == CUDA_SUCCESS &&
      Lower(g_driver.cuLibraryGetKernelCount, &found, library) == CUDA_SUCCESS)
    for (unsigned i = 0; i < count && i < found; ++i) RememberKernel(kernels[i]);
  return FromDriver(result);
}

}  // namespace farcall::cudart
