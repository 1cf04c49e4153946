// SPDX-License-Identifier: Apache-2.0
// What nvcc's constructors register: fat binaries and the host symbols of their kernels and
// variables. Nothing is loaded before it is used; then the binary is a CUlibrary, which serves
// every context.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/cudart/enter.h"

namespace farcall::cudart {

struct FatBinary;

// A kernel with a host stub, or one handed out as cudaKernel_t, which then stands for itself.
struct Kernel {
  FatBinary* binary = nullptr;  // null: handle is all there is
  const char* name = nullptr;
  const void* symbol = nullptr;
  std::atomic<CUkernel> handle{nullptr};
};

struct Variable {
  FatBinary* binary = nullptr;
  const char* name = nullptr;
  const void* symbol = nullptr;
  size_t bytes = 0;
  void** managed = nullptr;  // where the host reads the address of a managed variable
};

struct FatBinary {
  void* wrapper = nullptr;  // what the registration passed; also the application's handle for it
  std::mutex mutex;
  std::atomic<CUlibrary> library{nullptr};
  cudaError_t failed = cudaSuccess;
  std::vector<Kernel*> kernels;
  std::vector<Variable*> variables;
};

// The kernel behind a host stub or a cudaKernel_t.
//   Errors  cudaErrorInvalidDeviceFunction (null, or lacking in its module),
//   cudaErrorInvalidResourceHandle (neither of the
//           two, so taken for a handle), or the driver's of loading
cudaError_t FindKernel(const void* symbol, CUkernel* kernel);
// The same where only a symbol will do: what is none is cudaErrorInvalidDeviceFunction.
cudaError_t FindKernelOfSymbol(const void* symbol, CUkernel* kernel);
// The host stub's address for what a graph node holds; null if there is none.
const void* SymbolOf(CUkernel kernel, CUfunction function);
// Lets `kernel` stand for itself where a symbol is wanted.
void RememberKernel(CUkernel kernel);
// Errors  cudaErrorInvalidSymbol, or the driver's of loading
cudaError_t FindVariable(const void* symbol, CUdeviceptr* address, size_t* bytes);

}  // namespace farcall::cudart
