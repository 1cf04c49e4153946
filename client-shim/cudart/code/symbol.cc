// SPDX-License-Identifier: Apache-2.0
// Device variables by host symbol.
#include "client-shim/cudart/code/symbol.h"

#include "client-shim/cudart/code/registry.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

cudaError_t InSymbol(const void* symbol, size_t offset, size_t count, void** address) {
  CUdeviceptr start = 0;
  size_t bytes = 0;
  if (cudaError_t error = FindVariable(symbol, &start, &bytes); error != cudaSuccess) return error;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  *address = reinterpret_cast<void*>(start + offset);
  return cudaSuccess;
}

cudaError_t Call_cudaGetSymbolAddress(void** address, const void* symbol) {
  if (address == nullptr) return cudaErrorInvalidValue;
  return InSymbol(symbol, 0, 0, address);
}

cudaError_t Call_cudaGetSymbolSize(size_t* size, const void* symbol) {
  if (size == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  return FindVariable(symbol, &address, size);
}

bool MayCopyToDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

bool MayCopyFromDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

cudaError_t Call_cudaMemcpyToSymbol(Side side, const void* symbol, const void* src, size_t count,
                                    size_t offset, cudaMemcpyKind kind) {
  if (!MayCopyToDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* to = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &to); error != cudaSuccess) return error;
  return Call_cudaMemcpy(side, to, src, count, kind);
}

cudaError_t Call_cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count,
                                         size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!MayCopyToDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* to = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &to); error != cudaSuccess) return error;
  return Call_cudaMemcpyAsync(to, src, count, kind, stream);
}

cudaError_t Call_cudaMemcpyFromSymbol(Side side, void* dst, const void* symbol, size_t count,
                                      size_t offset, cudaMemcpyKind kind) {
  if (!MayCopyFromDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* from = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &from); error != cudaSuccess)
    return error;
  return Call_cudaMemcpy(side, dst, from, count, kind);
}

cudaError_t Call_cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count,
                                           size_t offset, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  if (!MayCopyFromDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* from = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &from); error != cudaSuccess)
    return error;
  return Call_cudaMemcpyAsync(dst, from, count, kind, stream);
}

}  // namespace farcall::cudart
