// SPDX-License-Identifier: Apache-2.0
// Fills: one row, rows, and boxes as rows where the pitch allows it.
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// `fill` takes an address, a width and a number of rows, all `pitched.pitch` bytes apart.
template <typename Fill>
cudaError_t FillBox(const cudaPitchedPtr& pitched, const cudaExtent& extent, Fill fill) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  if (extent.width > pitched.pitch) return cudaErrorInvalidValue;
  size_t rows = 0, slice = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows) ||
      __builtin_mul_overflow(pitched.pitch, pitched.ysize, &slice))
    return cudaErrorInvalidValue;
  if (extent.depth == 1 || extent.height == pitched.ysize)
    return FromDriver(fill(Address(pitched.ptr), extent.width, rows));
  if (extent.height > pitched.ysize) return cudaErrorInvalidValue;
  for (size_t z = 0; z < extent.depth; ++z) {
    CUresult result = fill(Address(pitched.ptr) + z * slice, extent.width, extent.height);
    if (result != CUDA_SUCCESS) return FromDriver(result);
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t Call_cudaMemset(Side side, void* pointer, int value, size_t count) {
  if (count == 0) return cudaSuccess;
  auto fill = side == Side::kPerThread ? g_driver.cuMemsetD8_v2_ptds : g_driver.cuMemsetD8_v2;
  return FromDriver(fill(Address(pointer), static_cast<unsigned char>(value), count));
}

cudaError_t Call_cudaMemsetAsync(void* pointer, int value, size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return FromDriver(
      g_driver.cuMemsetD8Async(Address(pointer), static_cast<unsigned char>(value), count, stream));
}

cudaError_t Call_cudaMemset2D(Side side, void* pointer, size_t pitch, int value, size_t width,
                              size_t height) {
  if (width == 0 || height == 0) return cudaSuccess;
  auto fill = side == Side::kPerThread ? g_driver.cuMemsetD2D8_v2_ptds : g_driver.cuMemsetD2D8_v2;
  return FromDriver(
      fill(Address(pointer), pitch, static_cast<unsigned char>(value), width, height));
}

cudaError_t Call_cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width,
                                   size_t height, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemsetD2D8Async(
      Address(pointer), pitch, static_cast<unsigned char>(value), width, height, stream));
}

cudaError_t Call_cudaMemset3D(Side side, cudaPitchedPtr pitched, int value, cudaExtent extent) {
  auto fill = side == Side::kPerThread ? g_driver.cuMemsetD2D8_v2_ptds : g_driver.cuMemsetD2D8_v2;
  return FillBox(pitched, extent, [&](CUdeviceptr at, size_t width, size_t rows) {
    return fill(at, pitched.pitch, static_cast<unsigned char>(value), width, rows);
  });
}

cudaError_t Call_cudaMemset3DAsync(cudaPitchedPtr pitched, int value, cudaExtent extent,
                                   cudaStream_t stream) {
  return FillBox(pitched, extent, [&](CUdeviceptr at, size_t width, size_t rows) {
    return g_driver.cuMemsetD2D8Async(at, pitched.pitch, static_cast<unsigned char>(value), width,
                                      rows, stream);
  });
}

}  // namespace farcall::cudart
