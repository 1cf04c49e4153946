// SPDX-License-Identifier: Apache-2.0
// What cuSOLVER's functions on host arrays are checked by: the library trusts row pointers, columns
// and permutations, and a client may not be trusted with its memory.
#pragma once

#include <cusolverSp.h>
#include <cusparse.h>

#include <cstdint>

#include "server/library/library_call.h"

namespace farcall::server {

// Of a factorisation's object (LibraryObject::notes).
enum SolverNote : size_t { kMatrixRows, kColumns, kNonzeros, kRoomBytes, kNonzerosL, kNonzerosU };
inline constexpr SolverNote kBatch = kMatrixRows;  // of an Rf handle

struct CsrShape {
  int64_t rows, columns, nonzeros;
};

// 0: the object is not there.
inline int64_t Note(LibraryCall& call, SolverNote note) {
  return call.last_object() == nullptr ? 0 : call.last_object()->notes[note];
}

// Row i is [first[i], end[i]), counted from `base`.
bool IsCsrFrom(int base, const CsrShape& shape, const int* first, const int* end,
               const int* columns);
bool IsCsr(LibraryCall& call, cusparseMatDescr_t descriptor, const CsrShape& shape,
           const int* first, const int* end, const int* columns);
inline bool IsCsr(LibraryCall& call, cusparseMatDescr_t descriptor, const CsrShape& shape,
                  const int* rows, const int* columns) {
  return rows != nullptr && IsCsr(call, descriptor, shape, rows, rows + 1, columns);
}
// Rf counts from 0.
inline bool IsRfCsr(const CsrShape& shape, const int* rows, const int* columns) {
  return rows != nullptr && IsCsrFrom(0, shape, rows, rows + 1, columns);
}
bool IsPermutation(const int* p, int64_t count);

// The object was analysed for this shape.
bool IsAnalysed(LibraryCall& call, const CsrShape& shape);
void NoteShape(LibraryCall& call, const CsrShape& shape);
void NoteRoom(LibraryCall& call, size_t bytes);
void NoteFactors(LibraryCall& call, int64_t lower, int64_t upper);
void NoteRf(LibraryCall& call, int64_t rows, int64_t batch);

// As cusolverSpXcsrperm_bufferSizeHost has it; 0: it refuses, or the matrix is none.
uint64_t PermutationRoom(LibraryCall& call, cusolverSpHandle_t handle, int m, int n, int nonzeros,
                         cusparseMatDescr_t descriptor, const int* rows, const int* columns,
                         const int* p, const int* q);

}  // namespace farcall::server
