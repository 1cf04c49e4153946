// SPDX-License-Identifier: Apache-2.0
// Rf's functions on arrays of arrays, and on arrays that the library makes (the server's side:
// server/library/library_cusolver.cc).
#include <cusolverRf.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "client-shim/thin/blobs.h"
#include "client-shim/thin/call.h"
#include "generated/proto/cusolver_call.h"
#include "proto/library/library_sizes.h"

#define CUSOLVER_ENTRY extern "C" __attribute__((visibility("default"))) cusolverStatus_t

using farcall::cusolver::Function;
using farcall::cusolver::kKind_cusolverRfHandle_t;
using farcall::thin::Call;
using farcall::thin::StateOf;
using farcall::thin::Times;

namespace {

struct RfHandle final : farcall::thin::State {
  int batch = 0;
};

// What the program frees, or nobody.
template <typename T>
class Room {
 public:
  ~Room() { std::free(values_); }
  bool Take(farcall::Reader& in) {
    std::span<const std::byte> bytes = in.GetBytes();
    values_ = static_cast<T*>(std::malloc(bytes.empty() ? 1 : bytes.size()));
    if (values_ == nullptr) return false;
    std::memcpy(values_, bytes.data(), bytes.size());
    return true;
  }
  void GiveTo(T** to) { *to = std::exchange(values_, nullptr); }

 private:
  T* values_ = nullptr;
};

struct Wanted {
  int* nonzeros;
  int** rows;
  int** columns;
  double** values;
  bool whole() const {
    return nonzeros != nullptr && rows != nullptr && columns != nullptr && values != nullptr;
  }
};

struct Taken {
  bool Take(farcall::Reader& in) {
    nonzeros = in.Get<int32_t>();
    return rows.Take(in) && columns.Take(in) && values.Take(in);
  }
  void GiveTo(const Wanted& to) {
    *to.nonzeros = nonzeros;
    rows.GiveTo(to.rows);
    columns.GiveTo(to.columns);
    values.GiveTo(to.values);
  }
  int nonzeros = 0;
  Room<int> rows, columns;
  Room<double> values;
};

cusolverStatus_t Extract(Function function, cusolverRfHandle_t handle,
                         std::initializer_list<Wanted> parts) {
  Call call(function);
  call.Object(handle, {kKind_cusolverRfHandle_t});
  for (const Wanted& part : parts)
    if (!part.whole()) call.Refuse(CUSOLVER_STATUS_INVALID_VALUE);
  farcall::thin::LongAnswer answer;
  answer.Await(call);
  int status = call.Ask();
  if (status == 0) status = answer.Complete();
  if (status != 0) return static_cast<cusolverStatus_t>(status);
  farcall::Reader in(std::as_bytes(std::span(answer.bytes)));
  std::vector<Taken> taken(parts.size());
  for (Taken& part : taken)
    if (!part.Take(in)) return CUSOLVER_STATUS_ALLOC_FAILED;
  if (!in.Done()) return CUSOLVER_STATUS_INTERNAL_ERROR;
  auto part = taken.begin();
  for (const Wanted& wanted : parts) (part++)->GiveTo(wanted);
  return CUSOLVER_STATUS_SUCCESS;
}

void PutArray(Call& call, const void* values, uint64_t bytes) {
  call.In(values, bytes);
  call.Need(values, bytes);
}

void PutPattern(Call& call, int n, int nonzeros, const int* rows, const int* columns) {
  PutArray(call, rows, Times(int64_t{n} + 1, sizeof(int)));
  PutArray(call, columns, Times(nonzeros, sizeof(int)));
}

// One array after the other.
void PutBatch(Call& call, int batch, int nonzeros, double* const* each) {
  std::vector<double> values;
  if (batch <= 0 || nonzeros < 0 || each == nullptr ||
      Times(batch, Times(nonzeros, sizeof(double))) > farcall::kMaxBlobBytes)
    return call.Refuse(CUSOLVER_STATUS_INVALID_VALUE);
  for (int i = 0; i < batch; ++i) {
    if (each[i] == nullptr) return call.Refuse(CUSOLVER_STATUS_INVALID_VALUE);
    values.insert(values.end(), each[i], each[i] + nonzeros);
  }
  values.reserve(1);
  call.In(values.data(), values.size() * sizeof(double));
}

}  // namespace

CUSOLVER_ENTRY cusolverRfCreate(cusolverRfHandle_t* handle) {
  return static_cast<cusolverStatus_t>(farcall::thin::MakeObject(
      Function::cusolverRfCreate, handle, kKind_cusolverRfHandle_t, new RfHandle));
}

CUSOLVER_ENTRY cusolverRfBatchSetupHost(int batchSize, int n, int nnzA, int* h_csrRowPtrA,
                                        int* h_csrColIndA, double* h_csrValA_array[], int nnzL,
                                        int* h_csrRowPtrL, int* h_csrColIndL, double* h_csrValL,
                                        int nnzU, int* h_csrRowPtrU, int* h_csrColIndU,
                                        double* h_csrValU, int* h_P, int* h_Q,
                                        cusolverRfHandle_t handle) {
  Call call(Function::cusolverRfBatchSetupHost);
  call.Object(handle, {kKind_cusolverRfHandle_t});
  for (int value : {batchSize, n, nnzA, nnzL, nnzU}) call.Value(value);
  PutPattern(call, n, nnzA, h_csrRowPtrA, h_csrColIndA);
  PutBatch(call, batchSize, nnzA, h_csrValA_array);
  PutPattern(call, n, nnzL, h_csrRowPtrL, h_csrColIndL);
  PutArray(call, h_csrValL, Times(nnzL, sizeof(double)));
  PutPattern(call, n, nnzU, h_csrRowPtrU, h_csrColIndU);
  PutArray(call, h_csrValU, Times(nnzU, sizeof(double)));
  PutArray(call, h_P, Times(n, sizeof(int)));
  PutArray(call, h_Q, Times(n, sizeof(int)));
  const int status = call.Ask();
  if (status == 0) StateOf<RfHandle>(handle, kKind_cusolverRfHandle_t)->batch = batchSize;
  return static_cast<cusolverStatus_t>(status);
}

CUSOLVER_ENTRY cusolverRfBatchZeroPivot(cusolverRfHandle_t handle, int* position) {
  const RfHandle* state = StateOf<RfHandle>(handle, kKind_cusolverRfHandle_t);
  if (state == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  Call call(Function::cusolverRfBatchZeroPivot);
  call.Object(handle, {kKind_cusolverRfHandle_t});
  call.Out(position, Times(state->batch, sizeof(int)));
  call.Need(position, Times(state->batch, sizeof(int)));
  return static_cast<cusolverStatus_t>(call.Run());
}

CUSOLVER_ENTRY cusolverRfExtractBundledFactorsHost(cusolverRfHandle_t handle, int* h_nnzM,
                                                   int** h_Mp, int** h_Mi, double** h_Mx) {
  return Extract(Function::cusolverRfExtractBundledFactorsHost, handle,
                 {{h_nnzM, h_Mp, h_Mi, h_Mx}});
}

CUSOLVER_ENTRY cusolverRfExtractSplitFactorsHost(cusolverRfHandle_t handle, int* h_nnzL,
                                                 int** h_csrRowPtrL, int** h_csrColIndL,
                                                 double** h_csrValL, int* h_nnzU,
                                                 int** h_csrRowPtrU, int** h_csrColIndU,
                                                 double** h_csrValU) {
  return Extract(Function::cusolverRfExtractSplitFactorsHost, handle,
                 {{h_nnzL, h_csrRowPtrL, h_csrColIndL, h_csrValL},
                  {h_nnzU, h_csrRowPtrU, h_csrColIndU, h_csrValU}});
}
