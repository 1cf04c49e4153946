// SPDX-License-Identifier: Apache-2.0
// How wide the scalars of cusparseAxpby and cusparseRot are: the type of the vectors tells. Which
// sizes make a matrix.
#pragma once

#include <cusparse.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "client-shim/thin/handle.h"
#include "generated/proto/cusparse_call.h"
#include "proto/library/library_sizes.h"

namespace farcall::thin {

struct SparseVector final : State {
  SparseVector() { is_handle = false; }
  cudaDataType type = CUDA_R_32F;
};

// Half-wide types are computed in 32 bits. 0: no sparse vector is among them.
inline uint64_t ScalarBytes(std::initializer_list<const void*> descriptors) {
  for (const void* descriptor : descriptors) {
    for (uint16_t kind :
         {cusparse::kKind_cusparseSpVecDescr_t, cusparse::kKind_cusparseConstSpVecDescr_t}) {
      const auto* vector = StateOf<SparseVector>(descriptor, kind);
      if (vector == nullptr) continue;
      const uint64_t least = IsComplexType(vector->type) ? 8 : 4;
      return std::max(DataTypeBytes(vector->type), least);
    }
  }
  return 0;
}

inline bool IsSparse(int64_t rows, int64_t columns, int64_t nonzeros) {
  int64_t elements = 0;
  return rows >= 0 && columns >= 0 && nonzeros >= 0 &&
         !__builtin_mul_overflow(rows, columns, &elements) && nonzeros <= elements;
}

// A number that is some type; which of them a matrix may have is the library's to say.
inline bool IsType(cudaDataType type) {
  return type >= CUDA_R_32F && type <= 63;
}

// A fill mode or a kind of diagonal: both are 0 or 1.
inline bool IsAttribute(cusparseSpMatAttribute_t attribute, const void* data, size_t bytes) {
  const bool is_known =
      attribute == CUSPARSE_SPMAT_FILL_MODE || attribute == CUSPARSE_SPMAT_DIAG_TYPE;
  if (!is_known || data == nullptr || bytes != sizeof(uint32_t)) return false;
  uint32_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value <= 1;
}

inline bool IsIndexed(std::initializer_list<cusparseIndexType_t> indices, cusparseIndexBase_t base,
                      cudaDataType type) {
  for (cusparseIndexType_t index : indices)
    if (index < CUSPARSE_INDEX_16U || index > CUSPARSE_INDEX_64I) return false;
  return (base == CUSPARSE_INDEX_BASE_ZERO || base == CUSPARSE_INDEX_BASE_ONE) && IsType(type);
}

inline bool IsDense(int64_t rows, int64_t columns, int64_t apart, cusparseOrder_t order) {
  return (order == CUSPARSE_ORDER_ROW || order == CUSPARSE_ORDER_COL) && rows >= 0 &&
         columns >= 0 && apart >= (order == CUSPARSE_ORDER_ROW ? columns : rows);
}

}  // namespace farcall::thin
