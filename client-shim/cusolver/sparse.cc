// SPDX-License-Identifier: Apache-2.0
// An LU factorisation on the host: how large its factors are is known here when they are taken.
#include <cusolverSp_LOWLEVEL_PREVIEW.h>

#include "client-shim/thin/call.h"
#include "generated/proto/cusolver_call.h"
#include "proto/library/library_sizes.h"

#define CUSOLVER_ENTRY extern "C" __attribute__((visibility("default"))) cusolverStatus_t

using namespace farcall::cusolver;
using farcall::LibraryId;
using farcall::LibraryKind;
using farcall::thin::Call;
using farcall::thin::StateOf;
using farcall::thin::Times;

namespace {

constexpr uint16_t kMatDescr = LibraryKind(LibraryId::kCusparse, 2);

struct LuInfo final : farcall::thin::State {
  LuInfo() { is_handle = false; }
  int n = 0;  // as it was analysed
};

void NeedOut(Call& call, void* pointer, uint64_t bytes) {
  call.Out(pointer, bytes);
  call.Need(pointer, bytes);
}

template <typename T>
struct Factor {
  cusparseMatDescr_t descriptor;
  T* values;
  int* rows;
  int* columns;
};

template <typename T>
void PutFactor(Call& call, const Factor<T>& factor, int n, int nonzeros) {
  NeedOut(call, factor.values, Times(nonzeros, sizeof(T)));
  NeedOut(call, factor.rows, Times(int64_t{n} + 1, sizeof(int)));
  NeedOut(call, factor.columns, Times(nonzeros, sizeof(int)));
}

template <typename T>
cusolverStatus_t Extract(Function function, cusolverSpHandle_t handle, int* p, int* q,
                         const Factor<T>& lower, const Factor<T>& upper, csrluInfoHost_t info) {
  const LuInfo* state = StateOf<LuInfo>(info, kKind_csrluInfoHost_t);
  if (state == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  int lower_nonzeros = 0, upper_nonzeros = 0;
  cusolverStatus_t status = cusolverSpXcsrluNnzHost(handle, &lower_nonzeros, &upper_nonzeros, info);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  Call call(function);
  call.Object(handle, {kKind_cusolverSpHandle_t});
  call.Object(lower.descriptor, {kKind_cusparseMatDescr_t, kMatDescr});
  call.Object(upper.descriptor, {kKind_cusparseMatDescr_t, kMatDescr});
  call.Object(info, {kKind_csrluInfoHost_t});
  NeedOut(call, p, Times(state->n, sizeof(int)));
  NeedOut(call, q, Times(state->n, sizeof(int)));
  PutFactor(call, lower, state->n, lower_nonzeros);
  PutFactor(call, upper, state->n, upper_nonzeros);
  return static_cast<cusolverStatus_t>(call.AskAnywhere());
}

}  // namespace

CUSOLVER_ENTRY cusolverSpCreateCsrluInfoHost(csrluInfoHost_t* info) {
  return static_cast<cusolverStatus_t>(farcall::thin::MakeObject(
      Function::cusolverSpCreateCsrluInfoHost, info, kKind_csrluInfoHost_t, new LuInfo));
}

CUSOLVER_ENTRY cusolverSpXcsrluAnalysisHost(cusolverSpHandle_t handle, int n, int nnzA,
                                            const cusparseMatDescr_t descrA, const int* csrRowPtrA,
                                            const int* csrColIndA, csrluInfoHost_t info) {
  Call call(Function::cusolverSpXcsrluAnalysisHost);
  call.Object(handle, {kKind_cusolverSpHandle_t});
  call.Object(descrA, {kKind_cusparseMatDescr_t, kMatDescr});
  call.Object(info, {kKind_csrluInfoHost_t});
  call.Value(n);
  call.Value(nnzA);
  call.In(csrRowPtrA, Times(int64_t{n} + 1, sizeof(int)));
  call.In(csrColIndA, Times(nnzA, sizeof(int)));
  call.Need(csrRowPtrA, Times(int64_t{n} + 1, sizeof(int)));
  call.Need(csrColIndA, Times(nnzA, sizeof(int)));
  const int status = call.AskAnywhere();
  if (status == 0) StateOf<LuInfo>(info, kKind_csrluInfoHost_t)->n = n;
  return static_cast<cusolverStatus_t>(status);
}

CUSOLVER_ENTRY cusolverSpXcsrluNnzHost(cusolverSpHandle_t handle, int* nnzLRef, int* nnzURef,
                                       csrluInfoHost_t info) {
  Call call(Function::cusolverSpXcsrluNnzHost);
  call.Object(handle, {kKind_cusolverSpHandle_t});
  call.Object(info, {kKind_csrluInfoHost_t});
  NeedOut(call, nnzLRef, sizeof(int));
  NeedOut(call, nnzURef, sizeof(int));
  return static_cast<cusolverStatus_t>(call.AskAnywhere());
}

#define EXTRACT(letter, T)                                                                    \
  CUSOLVER_ENTRY cusolverSp##letter##csrluExtractHost(                                        \
      cusolverSpHandle_t handle, int* P, int* Q, const cusparseMatDescr_t descrL, T* csrValL, \
      int* csrRowPtrL, int* csrColIndL, const cusparseMatDescr_t descrU, T* csrValU,          \
      int* csrRowPtrU, int* csrColIndU, csrluInfoHost_t info, void*) {                        \
    return Extract<T>(Function::cusolverSp##letter##csrluExtractHost, handle, P, Q,           \
                      {descrL, csrValL, csrRowPtrL, csrColIndL},                              \
                      {descrU, csrValU, csrRowPtrU, csrColIndU}, info);                       \
  }
EXTRACT(S, float)
EXTRACT(D, double)
EXTRACT(C, cuComplex)
EXTRACT(Z, cuDoubleComplex)
