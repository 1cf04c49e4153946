// SPDX-License-Identifier: Apache-2.0
// The matrix functions of cublasXt, each by the function of the second API that has its name.
#include <limits>

#include "client-shim/cublas/xt.h"
#include "client-shim/thin/library.h"

#define XT_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

namespace {

using farcall::cublas::RunXt;
using farcall::cublas::XtMatrix;

template <typename T>
XtMatrix Read(const T* at, size_t rows, size_t columns, size_t pitch) {
  return {at, rows, columns, pitch, sizeof(T), XtMatrix::Use::kRead};
}
template <typename T>
XtMatrix Changed(T* at, size_t rows, size_t columns, size_t pitch) {
  return {at, rows, columns, pitch, sizeof(T), XtMatrix::Use::kChanged};
}

bool Is(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}
bool Is(cublasFillMode_t fill) {
  return fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER;
}
bool Is(cublasSideMode_t side) {
  return side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT;
}
bool Is(cublasDiagType_t diagonal) {
  return diagonal == CUBLAS_DIAG_NON_UNIT || diagonal == CUBLAS_DIAG_UNIT;
}

int64_t L(size_t value) {
  return static_cast<int64_t>(value);
}

// As it is stored: `rows` x `columns` after the operation.
template <typename T>
XtMatrix Operand(cublasOperation_t operation, const T* at, size_t rows, size_t columns,
                 size_t pitch) {
  const bool as_is = operation == CUBLAS_OP_N;
  return Read(at, as_is ? rows : columns, as_is ? columns : rows, pitch);
}

template <typename T, typename Function>
cublasStatus_t Gemm(Function gemm, cublasXtHandle_t handle, cublasOperation_t transa,
                    cublasOperation_t transb, size_t m, size_t n, size_t k, const T* alpha,
                    const T* A, size_t lda, const T* B, size_t ldb, const T* beta, T* C,
                    size_t ldc) {
  if (!Is(transa) || !Is(transb)) return CUBLAS_STATUS_INVALID_VALUE;
  XtMatrix a = Operand(transa, A, m, k, lda), b = Operand(transb, B, k, n, ldb);
  XtMatrix c = Changed(C, m, n, ldc);
  return RunXt(handle, {alpha, beta}, {&a, &b, &c}, [&](cublasHandle_t blas) {
    return gemm(blas, transa, transb, L(m), L(n), L(k), alpha, a.at<T>(), a.pitch(), b.at<T>(),
                b.pitch(), beta, c.at<T>(), c.pitch());
  });
}

// syrk, herk
template <typename T, typename Scalar, typename Function>
cublasStatus_t RankK(Function rank_k, cublasXtHandle_t handle, cublasFillMode_t uplo,
                     cublasOperation_t trans, size_t n, size_t k, const Scalar* alpha, const T* A,
                     size_t lda, const Scalar* beta, T* C, size_t ldc) {
  if (!Is(uplo) || !Is(trans)) return CUBLAS_STATUS_INVALID_VALUE;
  XtMatrix a = Operand(trans, A, n, k, lda), c = Changed(C, n, n, ldc);
  return RunXt(handle, {alpha, beta}, {&a, &c}, [&](cublasHandle_t blas) {
    return rank_k(blas, uplo, trans, L(n), L(k), alpha, a.at<T>(), a.pitch(), beta, c.at<T>(),
                  c.pitch());
  });
}

// syr2k, her2k, syrkx, herkx
template <typename T, typename Scalar, typename Function>
cublasStatus_t Rank2K(Function rank_2k, cublasXtHandle_t handle, cublasFillMode_t uplo,
                      cublasOperation_t trans, size_t n, size_t k, const T* alpha, const T* A,
                      size_t lda, const T* B, size_t ldb, const Scalar* beta, T* C, size_t ldc) {
  if (!Is(uplo) || !Is(trans)) return CUBLAS_STATUS_INVALID_VALUE;
  XtMatrix a = Operand(trans, A, n, k, lda), b = Operand(trans, B, n, k, ldb);
  XtMatrix c = Changed(C, n, n, ldc);
  return RunXt(handle, {alpha, beta}, {&a, &b, &c}, [&](cublasHandle_t blas) {
    return rank_2k(blas, uplo, trans, L(n), L(k), alpha, a.at<T>(), a.pitch(), b.at<T>(), b.pitch(),
                   beta, c.at<T>(), c.pitch());
  });
}

// symm, hemm
template <typename T, typename Function>
cublasStatus_t Symm(Function symm, cublasXtHandle_t handle, cublasSideMode_t side,
                    cublasFillMode_t uplo, size_t m, size_t n, const T* alpha, const T* A,
                    size_t lda, const T* B, size_t ldb, const T* beta, T* C, size_t ldc) {
  if (!Is(side) || !Is(uplo)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  XtMatrix a = Read(A, order, order, lda), b = Read(B, m, n, ldb), c = Changed(C, m, n, ldc);
  return RunXt(handle, {alpha, beta}, {&a, &b, &c}, [&](cublasHandle_t blas) {
    return symm(blas, side, uplo, L(m), L(n), alpha, a.at<T>(), a.pitch(), b.at<T>(), b.pitch(),
                beta, c.at<T>(), c.pitch());
  });
}

template <typename T, typename Function>
cublasStatus_t Trsm(Function trsm, cublasXtHandle_t handle, cublasSideMode_t side,
                    cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, size_t m,
                    size_t n, const T* alpha, const T* A, size_t lda, T* B, size_t ldb) {
  if (!Is(side) || !Is(uplo) || !Is(trans) || !Is(diag)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  XtMatrix a = Read(A, order, order, lda), b = Changed(B, m, n, ldb);
  return RunXt(handle, {alpha}, {&a, &b}, [&](cublasHandle_t blas) {
    return trsm(blas, side, uplo, trans, diag, L(m), L(n), alpha, a.at<T>(), a.pitch(), b.at<T>(),
                b.pitch());
  });
}

template <typename T, typename Function>
cublasStatus_t Trmm(Function trmm, cublasXtHandle_t handle, cublasSideMode_t side,
                    cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, size_t m,
                    size_t n, const T* alpha, const T* A, size_t lda, const T* B, size_t ldb, T* C,
                    size_t ldc) {
  if (!Is(side) || !Is(uplo) || !Is(trans) || !Is(diag)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  XtMatrix a = Read(A, order, order, lda), b = Read(B, m, n, ldb), c = Changed(C, m, n, ldc);
  return RunXt(handle, {alpha}, {&a, &b, &c}, [&](cublasHandle_t blas) {
    return trmm(blas, side, uplo, trans, diag, L(m), L(n), alpha, a.at<T>(), a.pitch(), b.at<T>(),
                b.pitch(), c.at<T>(), c.pitch());
  });
}

// A packed symmetric matrix: unpacked on the device, then as symm.
template <typename T, typename Unpack, typename Function>
cublasStatus_t Spmm(Unpack unpack, Function symm, cublasXtHandle_t handle, cublasSideMode_t side,
                    cublasFillMode_t uplo, size_t m, size_t n, const T* alpha, const T* AP,
                    const T* B, size_t ldb, const T* beta, T* C, size_t ldc) {
  if (!Is(side) || !Is(uplo)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  if (order > size_t{std::numeric_limits<int>::max()}) return CUBLAS_STATUS_NOT_SUPPORTED;
  const size_t packed = order * (order + 1) / 2;
  XtMatrix ap = Read(AP, packed, 1, packed == 0 ? 1 : packed);
  XtMatrix a(&ap, order, order, order == 0 ? 1 : order, sizeof(T), XtMatrix::Use::kScratch);
  XtMatrix b = Read(B, m, n, ldb), c = Changed(C, m, n, ldc);
  return RunXt(handle, {alpha, beta}, {&ap, &a, &b, &c}, [&](cublasHandle_t blas) {
    cublasStatus_t status = unpack(blas, uplo, static_cast<int>(order), ap.at<T>(), a.at<T>(),
                                   static_cast<int>(a.pitch()));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return symm(blas, side, uplo, L(m), L(n), alpha, a.at<T>(), a.pitch(), b.at<T>(), b.pitch(),
                beta, c.at<T>(), c.pitch());
  });
}

}  // namespace

#define GEMM(letter, T)                                                                           \
  XT_ENTRY cublasXt##letter##gemm(cublasXtHandle_t handle, cublasOperation_t transa,              \
                                  cublasOperation_t transb, size_t m, size_t n, size_t k,         \
                                  const T* alpha, const T* A, size_t lda, const T* B, size_t ldb, \
                                  const T* beta, T* C, size_t ldc) {                              \
    return Gemm(cublas##letter##gemm_v2_64, handle, transa, transb, m, n, k, alpha, A, lda, B,    \
                ldb, beta, C, ldc);                                                               \
  }
#define RANK_K(letter, name, T, Scalar)                                                            \
  XT_ENTRY cublasXt##letter##name(                                                                 \
      cublasXtHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, size_t n, size_t k, \
      const Scalar* alpha, const T* A, size_t lda, const Scalar* beta, T* C, size_t ldc) {         \
    return RankK(cublas##letter##name##_v2_64, handle, uplo, trans, n, k, alpha, A, lda, beta, C,  \
                 ldc);                                                                             \
  }
#define RANK_2K(letter, name, second, T, Scalar)                                               \
  XT_ENTRY cublasXt##letter##name(cublasXtHandle_t handle, cublasFillMode_t uplo,              \
                                  cublasOperation_t trans, size_t n, size_t k, const T* alpha, \
                                  const T* A, size_t lda, const T* B, size_t ldb,              \
                                  const Scalar* beta, T* C, size_t ldc) {                      \
    return Rank2K(second, handle, uplo, trans, n, k, alpha, A, lda, B, ldb, beta, C, ldc);     \
  }
#define SYMM(letter, name, T)                                                                    \
  XT_ENTRY cublasXt##letter##name(cublasXtHandle_t handle, cublasSideMode_t side,                \
                                  cublasFillMode_t uplo, size_t m, size_t n, const T* alpha,     \
                                  const T* A, size_t lda, const T* B, size_t ldb, const T* beta, \
                                  T* C, size_t ldc) {                                            \
    return Symm(cublas##letter##name##_v2_64, handle, side, uplo, m, n, alpha, A, lda, B, ldb,   \
                beta, C, ldc);                                                                   \
  }
#define TRIANGULAR(letter, T)                                                                     \
  XT_ENTRY cublasXt##letter##trsm(cublasXtHandle_t handle, cublasSideMode_t side,                 \
                                  cublasFillMode_t uplo, cublasOperation_t trans,                 \
                                  cublasDiagType_t diag, size_t m, size_t n, const T* alpha,      \
                                  const T* A, size_t lda, T* B, size_t ldb) {                     \
    return Trsm(cublas##letter##trsm_v2_64, handle, side, uplo, trans, diag, m, n, alpha, A, lda, \
                B, ldb);                                                                          \
  }                                                                                               \
  XT_ENTRY cublasXt##letter##trmm(                                                                \
      cublasXtHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,                      \
      cublasOperation_t trans, cublasDiagType_t diag, size_t m, size_t n, const T* alpha,         \
      const T* A, size_t lda, const T* B, size_t ldb, T* C, size_t ldc) {                         \
    return Trmm(cublas##letter##trmm_v2_64, handle, side, uplo, trans, diag, m, n, alpha, A, lda, \
                B, ldb, C, ldc);                                                                  \
  }
#define SPMM(letter, T)                                                                          \
  XT_ENTRY cublasXt##letter##spmm(                                                               \
      cublasXtHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, size_t m, size_t n, \
      const T* alpha, const T* AP, const T* B, size_t ldb, const T* beta, T* C, size_t ldc) {    \
    return Spmm(cublas##letter##tpttr, cublas##letter##symm_v2_64, handle, side, uplo, m, n,     \
                alpha, AP, B, ldb, beta, C, ldc);                                                \
  }
#define OF_EACH(letter, T)                                  \
  GEMM(letter, T)                                           \
  RANK_K(letter, syrk, T, T)                                \
  RANK_2K(letter, syr2k, cublas##letter##syr2k_v2_64, T, T) \
  RANK_2K(letter, syrkx, cublas##letter##syrkx_64, T, T)    \
  SYMM(letter, symm, T)                                     \
  TRIANGULAR(letter, T)                                     \
  SPMM(letter, T)
#define OF_COMPLEX(letter, T, Real)                            \
  RANK_K(letter, herk, T, Real)                                \
  RANK_2K(letter, her2k, cublas##letter##her2k_v2_64, T, Real) \
  RANK_2K(letter, herkx, cublas##letter##herkx_64, T, Real)    \
  SYMM(letter, hemm, T)

OF_EACH(S, float)
OF_EACH(D, double)
OF_EACH(C, cuComplex)
OF_EACH(Z, cuDoubleComplex)
OF_COMPLEX(C, cuComplex, float)
OF_COMPLEX(Z, cuDoubleComplex, double)
