// SPDX-License-Identifier: Apache-2.0
// Vectors and matrices between host and device: copies of the driver's.
#include <cublas_api.h>
#include <cuda.h>

#include "client-shim/thin/library.h"

#define CUBLAS_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

namespace {

struct Block {
  int64_t rows, columns, element_bytes;
  const void* from;
  int64_t from_pitch;  // elements
  void* to;
  int64_t to_pitch;
};

cublasStatus_t Status(CUresult result) {
  if (result == CUDA_SUCCESS) return CUBLAS_STATUS_SUCCESS;
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED
             ? static_cast<cublasStatus_t>(farcall::thin::StatusOf(result))
             : CUBLAS_STATUS_MAPPING_ERROR;
}

CUDA_MEMCPY2D BoxOf(const Block& block, bool to_device) {
  CUDA_MEMCPY2D box{};
  auto bytes = static_cast<size_t>(block.element_bytes);
  box.WidthInBytes = static_cast<size_t>(block.rows) * bytes;
  box.Height = static_cast<size_t>(block.columns);
  box.srcPitch = static_cast<size_t>(block.from_pitch) * bytes;
  box.dstPitch = static_cast<size_t>(block.to_pitch) * bytes;
  box.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  box.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  box.srcHost = block.from;
  box.srcDevice = reinterpret_cast<CUdeviceptr>(block.from);
  box.dstHost = block.to;
  box.dstDevice = reinterpret_cast<CUdeviceptr>(block.to);
  return box;
}

cublasStatus_t Copy(const Block& block, bool to_device, bool async, cudaStream_t stream) {
  if (block.rows < 0 || block.columns < 0 || block.element_bytes <= 0 || block.from_pitch <= 0 ||
      block.to_pitch <= 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (block.rows == 0 || block.columns == 0) return CUBLAS_STATUS_SUCCESS;
  int opened = farcall::thin::Open();
  if (opened != 0) return static_cast<cublasStatus_t>(opened);
  CUDA_MEMCPY2D box = BoxOf(block, to_device);
  if (async) {
    static const auto copy = FARCALL_DRIVER(cuMemcpy2DAsync_v2);
    return Status(copy(&box, stream));
  }
  static const auto copy = FARCALL_DRIVER(cuMemcpy2DUnaligned_v2);
  return Status(copy(&box));
}

// An element a row of one; the strides are pitches.
Block Vector(int64_t n, int64_t bytes, const void* from, int64_t incx, void* to, int64_t incy) {
  if (incx == 1 && incy == 1)
    return {n, n > 0 ? 1 : n, bytes, from, n > 0 ? n : 1, to, n > 0 ? n : 1};
  return {1, n, bytes, from, incx, to, incy};
}

}  // namespace

#define VECTOR(name, int_type, to_device)                                                 \
  CUBLAS_ENTRY name(int_type n, int_type elemSize, const void* x, int_type incx, void* y, \
                    int_type incy) {                                                      \
    return Copy(Vector(n, elemSize, x, incx, y, incy), to_device, false, nullptr);        \
  }
#define VECTOR_ASYNC(name, int_type, to_device)                                           \
  CUBLAS_ENTRY name(int_type n, int_type elemSize, const void* x, int_type incx, void* y, \
                    int_type incy, cudaStream_t stream) {                                 \
    return Copy(Vector(n, elemSize, x, incx, y, incy), to_device, true, stream);          \
  }
#define MATRIX(name, int_type, to_device)                                                         \
  CUBLAS_ENTRY name(int_type rows, int_type cols, int_type elemSize, const void* A, int_type lda, \
                    void* B, int_type ldb) {                                                      \
    return Copy({rows, cols, elemSize, A, lda, B, ldb}, to_device, false, nullptr);               \
  }
#define MATRIX_ASYNC(name, int_type, to_device)                                                   \
  CUBLAS_ENTRY name(int_type rows, int_type cols, int_type elemSize, const void* A, int_type lda, \
                    void* B, int_type ldb, cudaStream_t stream) {                                 \
    return Copy({rows, cols, elemSize, A, lda, B, ldb}, to_device, true, stream);                 \
  }

VECTOR(cublasSetVector, int, true)
VECTOR(cublasSetVector_64, int64_t, true)
VECTOR(cublasGetVector, int, false)
VECTOR(cublasGetVector_64, int64_t, false)
VECTOR_ASYNC(cublasSetVectorAsync, int, true)
VECTOR_ASYNC(cublasSetVectorAsync_64, int64_t, true)
VECTOR_ASYNC(cublasGetVectorAsync, int, false)
VECTOR_ASYNC(cublasGetVectorAsync_64, int64_t, false)
MATRIX(cublasSetMatrix, int, true)
MATRIX(cublasSetMatrix_64, int64_t, true)
MATRIX(cublasGetMatrix, int, false)
MATRIX(cublasGetMatrix_64, int64_t, false)
MATRIX_ASYNC(cublasSetMatrixAsync, int, true)
MATRIX_ASYNC(cublasSetMatrixAsync_64, int64_t, true)
MATRIX_ASYNC(cublasGetMatrixAsync, int, false)
MATRIX_ASYNC(cublasGetMatrixAsync_64, int64_t, false)
