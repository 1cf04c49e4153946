// SPDX-License-Identifier: Apache-2.0
// Copies of rows into, out of and between arrays. Offsets into an array count bytes along a row.
#include <algorithm>

#include "client-shim/cudart/memory/copy.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

CUarray AsArray(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

void FromPointer(const void* src, size_t pitch, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  copy->srcMemoryType = SourceType(kind);
  copy->srcHost = src;
  copy->srcDevice = reinterpret_cast<CUdeviceptr>(src);
  copy->srcPitch = pitch;
}

void ToPointer(void* dst, size_t pitch, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  copy->dstMemoryType = TargetType(kind);
  copy->dstHost = dst;
  copy->dstDevice = reinterpret_cast<CUdeviceptr>(dst);
  copy->dstPitch = pitch;
}

void FromArray(cudaArray_const_t src, size_t x, size_t y, CUDA_MEMCPY2D* copy) {
  copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->srcArray = AsArray(src);
  copy->srcXInBytes = x;
  copy->srcY = y;
}

void ToArray(cudaArray_t dst, size_t x, size_t y, CUDA_MEMCPY2D* copy) {
  copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->dstArray = AsArray(dst);
  copy->dstXInBytes = x;
  copy->dstY = y;
}

cudaError_t IntoArray(cudaArray_t dst, size_t x, size_t y, const void* src, size_t pitch,
                      size_t width, size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (dst == nullptr) return cudaErrorInvalidResourceHandle;
  if (height > 1 && width > pitch) return cudaErrorInvalidPitchValue;
  *copy = {};
  FromPointer(src, pitch, kind, copy);
  ToArray(dst, x, y, copy);
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

cudaError_t OutOfArray(void* dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
                       size_t width, size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (src == nullptr) return cudaErrorInvalidResourceHandle;
  if (height > 1 && width > pitch) return cudaErrorInvalidPitchValue;
  *copy = {};
  FromArray(src, x, y, copy);
  ToPointer(dst, pitch, kind, copy);
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

cudaError_t RowBytes(cudaArray_const_t array, size_t* bytes) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  CUresult result = g_driver.cuArray3DGetDescriptor_v2(&descriptor, AsArray(array));
  if (result != CUDA_SUCCESS) return FromDriver(result);
  size_t unit = 0;
  if (cudaError_t error = ElementBytes(array, &unit); error != cudaSuccess) return error;
  *bytes = descriptor.Width * unit;
  return *bytes != 0 ? cudaSuccess : cudaErrorInvalidValue;
}

// `count` bytes that run on from row to row: the rest of the first, whole ones, the start of the
// last.
//   one(x, y, done, width, height)
template <typename One>
cudaError_t Wrapped(cudaArray_const_t array, size_t x, size_t y, size_t count, One one) {
  if (array == nullptr) return cudaErrorInvalidResourceHandle;
  size_t row = 0;
  if (cudaError_t error = RowBytes(array, &row); error != cudaSuccess) return error;
  if (x >= row) return cudaErrorInvalidValue;
  for (size_t done = 0; done < count;) {
    const size_t left = count - done;
    const size_t width = x != 0 || left < row ? std::min(left, row - x) : row;
    const size_t height = width == row ? left / row : 1;
    if (cudaError_t error = one(x, y, done, width, height); error != cudaSuccess) return error;
    done += width * height;
    y += height;
    x = 0;
  }
  return cudaSuccess;
}

template <typename Run>
cudaError_t WrappedInto(cudaArray_t dst, size_t x, size_t y, const void* src, size_t count,
                        cudaMemcpyKind kind, Run run) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  return Wrapped(dst, x, y, count,
                 [&](size_t at, size_t row, size_t done, size_t width, size_t height) {
                   CUDA_MEMCPY2D copy;
                   cudaError_t error = IntoArray(dst, at, row, static_cast<const char*>(src) + done,
                                                 width, width, height, kind, &copy);
                   return error != cudaSuccess ? error : run(copy);
                 });
}

template <typename Run>
cudaError_t WrappedOut(void* dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
                       cudaMemcpyKind kind, Run run) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  return Wrapped(src, x, y, count,
                 [&](size_t at, size_t row, size_t done, size_t width, size_t height) {
                   CUDA_MEMCPY2D copy;
                   cudaError_t error = OutOfArray(static_cast<char*>(dst) + done, width, src, at,
                                                  row, width, height, kind, &copy);
                   return error != cudaSuccess ? error : run(copy);
                 });
}

}  // namespace

cudaError_t Call_cudaMemcpy2DToArray(Side side, cudaArray_t dst, size_t x, size_t y,
                                     const void* src, size_t pitch, size_t width, size_t height,
                                     cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = IntoArray(dst, x, y, src, pitch, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2D(side, copy);
}

cudaError_t Call_cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void* src,
                                          size_t pitch, size_t width, size_t height,
                                          cudaMemcpyKind kind, cudaStream_t stream) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = IntoArray(dst, x, y, src, pitch, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2DAsync(copy, stream);
}

cudaError_t Call_cudaMemcpy2DFromArray(Side side, void* dst, size_t pitch, cudaArray_const_t src,
                                       size_t x, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = OutOfArray(dst, pitch, src, x, y, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2D(side, copy);
}

cudaError_t Call_cudaMemcpy2DFromArrayAsync(void* dst, size_t pitch, cudaArray_const_t src,
                                            size_t x, size_t y, size_t width, size_t height,
                                            cudaMemcpyKind kind, cudaStream_t stream) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = OutOfArray(dst, pitch, src, x, y, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2DAsync(copy, stream);
}

cudaError_t Call_cudaMemcpy2DArrayToArray(Side side, cudaArray_t dst, size_t x_dst, size_t y_dst,
                                          cudaArray_const_t src, size_t x_src, size_t y_src,
                                          size_t width, size_t height, cudaMemcpyKind kind) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (dst == nullptr || src == nullptr) return cudaErrorInvalidResourceHandle;
  CUDA_MEMCPY2D copy = {};
  FromArray(src, x_src, y_src, &copy);
  ToArray(dst, x_dst, y_dst, &copy);
  copy.WidthInBytes = width;
  copy.Height = height;
  return Copy2D(side, copy);
}

cudaError_t Call_cudaMemcpyToArray(Side side, cudaArray_t dst, size_t x, size_t y, const void* src,
                                   size_t count, cudaMemcpyKind kind) {
  return WrappedInto(dst, x, y, src, count, kind,
                     [&](const CUDA_MEMCPY2D& copy) { return Copy2D(side, copy); });
}

cudaError_t Call_cudaMemcpyToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void* src,
                                        size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return WrappedInto(dst, x, y, src, count, kind,
                     [&](const CUDA_MEMCPY2D& copy) { return Copy2DAsync(copy, stream); });
}

cudaError_t Call_cudaMemcpyFromArray(Side side, void* dst, cudaArray_const_t src, size_t x,
                                     size_t y, size_t count, cudaMemcpyKind kind) {
  return WrappedOut(dst, src, x, y, count, kind,
                    [&](const CUDA_MEMCPY2D& copy) { return Copy2D(side, copy); });
}

cudaError_t Call_cudaMemcpyFromArrayAsync(void* dst, cudaArray_const_t src, size_t x, size_t y,
                                          size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return WrappedOut(dst, src, x, y, count, kind,
                    [&](const CUDA_MEMCPY2D& copy) { return Copy2DAsync(copy, stream); });
}

cudaError_t Call_cudaMemcpyArrayToArray(Side side, cudaArray_t dst, size_t x_dst, size_t y_dst,
                                        cudaArray_const_t src, size_t x_src, size_t y_src,
                                        size_t count, cudaMemcpyKind kind) {
  if (dst == nullptr) return cudaErrorInvalidResourceHandle;
  size_t row = 0;
  if (cudaError_t error = RowBytes(dst, &row); error != cudaSuccess) return error;
  if (x_dst >= row) return cudaErrorInvalidValue;
  // Cut at both arrays' row ends: each piece lies in one row of either.
  return Wrapped(src, x_src, y_src, count,
                 [&](size_t x, size_t y, size_t, size_t width, size_t height) {
                   for (size_t line = 0; line < height; ++line) {
                     for (size_t done = 0; done < width;) {
                       const size_t part = std::min(width - done, row - x_dst);
                       cudaError_t error = Call_cudaMemcpy2DArrayToArray(
                           side, dst, x_dst, y_dst, src, x + done, y + line, part, 1, kind);
                       if (error != cudaSuccess) return error;
                       done += part;
                       x_dst += part;
                       if (x_dst == row) x_dst = 0, ++y_dst;
                     }
                   }
                   return cudaSuccess;
                 });
}

}  // namespace farcall::cudart
