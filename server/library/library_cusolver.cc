// SPDX-License-Identifier: Apache-2.0
// cuSOLVER's functions on host arrays: what they are checked by, and those of Rf that take or make
// arrays of arrays (the client's side: client-shim/cusolver/refactor.cc).
#include <cusolverRf.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "generated/proto/cusolver_call.h"
#include "proto/library/library_sizes.h"
#include "server/library/cusolver_host.h"
#include "server/library/library_blobs.h"
#include "server/library/library_text.h"

namespace farcall::server {

namespace {

using cusolver::Function;
using cusolver::kKind_cusolverRfHandle_t;
using thin::Times;

constexpr int64_t kLeastRoomBytes = 16;
constexpr int kMaxBatch = 1 << 20;  // of matrices that may have no element each

uint16_t Id(Function function) {
  return static_cast<uint16_t>(function);
}

// An array that the library made with malloc.
template <typename T>
class Made {
 public:
  ~Made() { std::free(values); }
  // False: it has not so many elements.
  bool PutInto(Builder& out, int64_t count) const {
    if (values == nullptr || count < 0 ||
        malloc_usable_size(values) / sizeof(T) < static_cast<uint64_t>(count))
      return false;
    out.PutBytes(values, static_cast<size_t>(count) * sizeof(T));
    return true;
  }
  T* values = nullptr;
};

struct MadeFactor {
  bool PutInto(Builder& out, int64_t rows_count) const {
    out.Put<int32_t>(nonzeros);
    return rows.PutInto(out, rows_count + 1) && columns.PutInto(out, nonzeros) &&
           values.PutInto(out, nonzeros);
  }
  int nonzeros = 0;
  Made<int> rows, columns;
  Made<double> values;
};

// Rf's arrays of one matrix, values apart.
struct Pattern {
  Pattern(LibraryCall& call, int n, int nonzeros)
      : rows(call.In<int*>(Times(int64_t{n} + 1, sizeof(int)))),
        columns(call.In<int*>(Times(nonzeros, sizeof(int)))) {}
  int* rows;
  int* columns;
};

void Extract(LibraryCall& call, Function function, int parts) {
  auto handle = call.Object<cusolverRfHandle_t>({kKind_cusolverRfHandle_t});
  auto bundled = call.Of<decltype(&::cusolverRfExtractBundledFactorsHost)>(
      Id(Function::cusolverRfExtractBundledFactorsHost));
  auto split = call.Of<decltype(&::cusolverRfExtractSplitFactorsHost)>(
      Id(Function::cusolverRfExtractSplitFactorsHost));
  const int64_t rows = Note(call, kColumns);
  MadeFactor first, second;
  if (call.Ready()) {
    call.status = function == Function::cusolverRfExtractBundledFactorsHost
                      ? bundled(handle, &first.nonzeros, &first.rows.values, &first.columns.values,
                                &first.values.values)
                      : split(handle, &first.nonzeros, &first.rows.values, &first.columns.values,
                              &first.values.values, &second.nonzeros, &second.rows.values,
                              &second.columns.values, &second.values.values);
    Builder answer;
    bool whole = call.status == 0 && first.PutInto(answer, rows) &&
                 (parts == 1 || second.PutInto(answer, rows));
    if (whole)
      AnswerWith(call, answer);
    else if (call.status == 0)
      call.status = CUSOLVER_STATUS_INTERNAL_ERROR;
  }
  AnswerFailure(call);
}

}  // namespace

bool IsCsrFrom(int base, const CsrShape& shape, const int* first, const int* end,
               const int* columns) {
  if (shape.rows < 0 || shape.columns < 0 || shape.nonzeros < 0 || first == nullptr ||
      end == nullptr || columns == nullptr)
    return false;
  for (int64_t row = 0; row < shape.rows; ++row) {
    int64_t from = int64_t{first[row]} - base, to = int64_t{end[row]} - base;
    if (from < 0 || to < from || to > shape.nonzeros) return false;
    for (int64_t at = from; at < to; ++at) {
      int64_t column = int64_t{columns[at]} - base;
      if (column < 0 || column >= shape.columns) return false;
    }
  }
  return true;
}

bool IsCsr(LibraryCall& call, cusparseMatDescr_t descriptor, const CsrShape& shape,
           const int* first, const int* end, const int* columns) {
  auto base = call.FunctionOf<decltype(&::cusparseGetMatIndexBase)>(LibraryId::kCusparse,
                                                                    "cusparseGetMatIndexBase");
  return descriptor != nullptr && base != nullptr &&
         IsCsrFrom(base(descriptor) == CUSPARSE_INDEX_BASE_ONE ? 1 : 0, shape, first, end, columns);
}

bool IsPermutation(const int* p, int64_t count) {
  if (p == nullptr || count < 0) return false;
  std::vector<bool> seen(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    if (p[i] < 0 || p[i] >= count || seen[static_cast<size_t>(p[i])]) return false;
    seen[static_cast<size_t>(p[i])] = true;
  }
  return true;
}

bool IsAnalysed(LibraryCall& call, const CsrShape& shape) {
  return call.last_object() != nullptr && Note(call, kMatrixRows) == shape.rows &&
         Note(call, kColumns) == shape.columns && Note(call, kNonzeros) == shape.nonzeros;
}

void NoteShape(LibraryCall& call, const CsrShape& shape) {
  call.last_object()->notes = {shape.rows, shape.columns, shape.nonzeros, 0, 0, 0};
}

void NoteRoom(LibraryCall& call, size_t bytes) {
  call.last_object()->notes[kRoomBytes] = std::max(static_cast<int64_t>(bytes), kLeastRoomBytes);
}

void NoteFactors(LibraryCall& call, int64_t lower, int64_t upper) {
  call.last_object()->notes[kNonzerosL] = lower;
  call.last_object()->notes[kNonzerosU] = upper;
}

void NoteRf(LibraryCall& call, int64_t rows, int64_t batch) {
  call.last_object()->notes = {batch, rows, 0, 0, 0, 0};
}

uint64_t PermutationRoom(LibraryCall& call, cusolverSpHandle_t handle, int m, int n, int nonzeros,
                         cusparseMatDescr_t descriptor, const int* rows, const int* columns,
                         const int* p, const int* q) {
  auto real = call.Of<decltype(&::cusolverSpXcsrperm_bufferSizeHost)>(
      Id(Function::cusolverSpXcsrperm_bufferSizeHost));
  size_t bytes = 0;
  if (handle == nullptr || real == nullptr ||
      !IsCsr(call, descriptor, {m, n, nonzeros}, rows, columns) || !IsPermutation(p, m) ||
      !IsPermutation(q, n) ||
      real(handle, m, n, nonzeros, descriptor, rows, columns, p, q, &bytes) != 0)
    return 0;
  return std::max<uint64_t>(bytes, kLeastRoomBytes);
}

void Serve_cusolverRfExtractBundledFactorsHost(LibraryCall& call) {
  Extract(call, Function::cusolverRfExtractBundledFactorsHost, 1);
}

void Serve_cusolverRfExtractSplitFactorsHost(LibraryCall& call) {
  Extract(call, Function::cusolverRfExtractSplitFactorsHost, 2);
}

void Serve_cusolverRfBatchSetupHost(LibraryCall& call) {
  auto handle = call.Object<cusolverRfHandle_t>({kKind_cusolverRfHandle_t});
  auto batch = call.Value<int>();
  auto n = call.Value<int>();
  auto nonzeros = call.Value<int>();
  auto lower_nonzeros = call.Value<int>();
  auto upper_nonzeros = call.Value<int>();
  Pattern a(call, n, nonzeros);
  auto* values = call.In<double*>(Times(batch, Times(nonzeros, sizeof(double))));
  Pattern lower(call, n, lower_nonzeros);
  auto* lower_values = call.In<double*>(Times(lower_nonzeros, sizeof(double)));
  Pattern upper(call, n, upper_nonzeros);
  auto* upper_values = call.In<double*>(Times(upper_nonzeros, sizeof(double)));
  auto* p = call.In<int*>(Times(n, sizeof(int)));
  auto* q = call.In<int*>(Times(n, sizeof(int)));
  auto real =
      call.Of<decltype(&::cusolverRfBatchSetupHost)>(Id(Function::cusolverRfBatchSetupHost));
  call.Require(batch > 0 && batch <= kMaxBatch && values != nullptr && lower_values != nullptr &&
                   upper_values != nullptr && IsRfCsr({n, n, nonzeros}, a.rows, a.columns) &&
                   IsRfCsr({n, n, lower_nonzeros}, lower.rows, lower.columns) &&
                   IsRfCsr({n, n, upper_nonzeros}, upper.rows, upper.columns) &&
                   IsPermutation(p, n) && IsPermutation(q, n),
               CUSOLVER_STATUS_INVALID_VALUE);
  if (!call.Ready()) return;
  std::vector<double*> each(static_cast<size_t>(batch));
  for (size_t i = 0; i < each.size(); ++i) each[i] = values + i * static_cast<size_t>(nonzeros);
  call.status = real(batch, n, nonzeros, a.rows, a.columns, each.data(), lower_nonzeros, lower.rows,
                     lower.columns, lower_values, upper_nonzeros, upper.rows, upper.columns,
                     upper_values, p, q, handle);
  if (call.status == 0) NoteRf(call, n, batch);
}

}  // namespace farcall::server
