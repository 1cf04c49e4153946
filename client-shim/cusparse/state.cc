// SPDX-License-Identifier: Apache-2.0
// Handles and the legacy matrix descriptors: what they hold is answered here.
#include <cusparse.h>

#include "client-shim/cusparse/vectors.h"
#include "client-shim/thin/call.h"
#include "generated/proto/cusparse_call.h"

#define CUSPARSE_ENTRY extern "C" __attribute__((visibility("default")))

using farcall::cusparse::Function;
using farcall::cusparse::kKind_cusparseHandle_t;
using farcall::cusparse::kKind_cusparseMatDescr_t;
using farcall::thin::Call;
using farcall::thin::State;
using farcall::thin::StateOf;
using farcall::thin::VersionPart;

namespace {

struct MatDescr final : State {
  cusparseMatrixType_t type = CUSPARSE_MATRIX_TYPE_GENERAL;
  cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t diag = CUSPARSE_DIAG_TYPE_NON_UNIT;
  cusparseIndexBase_t base = CUSPARSE_INDEX_BASE_ZERO;
};

template <typename T>
cusparseStatus_t Set(cusparseMatDescr_t descr, T MatDescr::*member, T value, int most,
                     Function setter) {
  MatDescr* state = StateOf<MatDescr>(descr, kKind_cusparseMatDescr_t);
  if (state == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (value < 0 || value > most) return CUSPARSE_STATUS_INVALID_VALUE;
  if (state->*member == value) return CUSPARSE_STATUS_SUCCESS;
  state->*member = value;
  Call call(setter);
  call.Object(descr, {kKind_cusparseMatDescr_t});
  call.Value(value);
  return static_cast<cusparseStatus_t>(call.Run());
}

template <typename T>
T Get(cusparseMatDescr_t descr, T MatDescr::*member) {
  MatDescr* state = StateOf<MatDescr>(descr, kKind_cusparseMatDescr_t);
  return state == nullptr ? MatDescr().*member : state->*member;
}

template <typename Handle>
cusparseStatus_t Create(Handle* handle, uint16_t kind, Function function, State* state) {
  return static_cast<cusparseStatus_t>(farcall::thin::MakeObject(function, handle, kind, state));
}

}  // namespace

CUSPARSE_ENTRY cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  return Create(handle, kKind_cusparseHandle_t, Function::cusparseCreate, new State);
}
CUSPARSE_ENTRY cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* descrA) {
  return Create(descrA, kKind_cusparseMatDescr_t, Function::cusparseCreateMatDescr, new MatDescr);
}

namespace {

template <typename Descr, typename Pointer>
cusparseStatus_t CreateSpVec(Function function, uint16_t kind, Descr* made, int64_t size,
                             int64_t nnz, Pointer indices, Pointer values,
                             cusparseIndexType_t idxType, cusparseIndexBase_t idxBase,
                             cudaDataType valueType) {
  auto* vector = new farcall::thin::SparseVector;
  vector->type = valueType;
  Call call(function);
  if (size < 0 || nnz < 0 || nnz > size || !farcall::thin::IsIndexed({idxType}, idxBase, valueType))
    call.Refuse(CUSPARSE_STATUS_INVALID_VALUE);
  call.New(made, kind, vector);
  call.Value(size);
  call.Value(nnz);
  call.Value(idxType);
  call.Value(idxBase);
  call.Value(valueType);
  call.Device(indices);
  call.Device(values);
  const int status = call.Run();
  if (status != 0) delete vector;
  return static_cast<cusparseStatus_t>(status);
}

}  // namespace

CUSPARSE_ENTRY cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t* spVecDescr, int64_t size,
                                                    int64_t nnz, void* indices, void* values,
                                                    cusparseIndexType_t idxType,
                                                    cusparseIndexBase_t idxBase,
                                                    cudaDataType valueType) {
  return CreateSpVec(Function::cusparseCreateSpVec, farcall::cusparse::kKind_cusparseSpVecDescr_t,
                     spVecDescr, size, nnz, indices, values, idxType, idxBase, valueType);
}
CUSPARSE_ENTRY cusparseStatus_t cusparseCreateConstSpVec(cusparseConstSpVecDescr_t* spVecDescr,
                                                         int64_t size, int64_t nnz,
                                                         const void* indices, const void* values,
                                                         cusparseIndexType_t idxType,
                                                         cusparseIndexBase_t idxBase,
                                                         cudaDataType valueType) {
  return CreateSpVec(Function::cusparseCreateConstSpVec,
                     farcall::cusparse::kKind_cusparseConstSpVecDescr_t, spVecDescr, size, nnz,
                     indices, values, idxType, idxBase, valueType);
}

CUSPARSE_ENTRY cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t streamId) {
  State* state = StateOf<State>(handle, kKind_cusparseHandle_t);
  if (state == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  state->stream = streamId;
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t* streamId) {
  State* state = StateOf<State>(handle, kKind_cusparseHandle_t);
  if (state == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  if (streamId == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *streamId = static_cast<cudaStream_t>(state->stream);
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle,
                                                       cusparsePointerMode_t mode) {
  State* state = StateOf<State>(handle, kKind_cusparseHandle_t);
  if (state == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  if (mode != CUSPARSE_POINTER_MODE_HOST && mode != CUSPARSE_POINTER_MODE_DEVICE)
    return CUSPARSE_STATUS_INVALID_VALUE;
  state->pointer_mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle,
                                                       cusparsePointerMode_t* mode) {
  State* state = StateOf<State>(handle, kKind_cusparseHandle_t);
  if (state == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  if (mode == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *mode = static_cast<cusparsePointerMode_t>(state->pointer_mode);
  return CUSPARSE_STATUS_SUCCESS;
}

CUSPARSE_ENTRY cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t descrA,
                                                   cusparseMatrixType_t type) {
  return Set(descrA, &MatDescr::type, type, CUSPARSE_MATRIX_TYPE_TRIANGULAR,
             Function::cusparseSetMatType);
}
CUSPARSE_ENTRY cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t descrA,
                                                       cusparseFillMode_t fillMode) {
  return Set(descrA, &MatDescr::fill, fillMode, CUSPARSE_FILL_MODE_UPPER,
             Function::cusparseSetMatFillMode);
}
CUSPARSE_ENTRY cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t descrA,
                                                       cusparseDiagType_t diagType) {
  return Set(descrA, &MatDescr::diag, diagType, CUSPARSE_DIAG_TYPE_UNIT,
             Function::cusparseSetMatDiagType);
}
CUSPARSE_ENTRY cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t descrA,
                                                        cusparseIndexBase_t base) {
  return Set(descrA, &MatDescr::base, base, CUSPARSE_INDEX_BASE_ONE,
             Function::cusparseSetMatIndexBase);
}
CUSPARSE_ENTRY cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t descrA) {
  return Get(descrA, &MatDescr::type);
}
CUSPARSE_ENTRY cusparseFillMode_t cusparseGetMatFillMode(const cusparseMatDescr_t descrA) {
  return Get(descrA, &MatDescr::fill);
}
CUSPARSE_ENTRY cusparseDiagType_t cusparseGetMatDiagType(const cusparseMatDescr_t descrA) {
  return Get(descrA, &MatDescr::diag);
}
CUSPARSE_ENTRY cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t descrA) {
  return Get(descrA, &MatDescr::base);
}

CUSPARSE_ENTRY cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int* version) {
  if (farcall::thin::Find(handle, kKind_cusparseHandle_t) == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  if (version == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = VersionPart(0) * 1000 + VersionPart(1) * 100 + VersionPart(2);
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL)
    return CUSPARSE_STATUS_INVALID_VALUE;
  *value = VersionPart(type);
  return CUSPARSE_STATUS_SUCCESS;
}

CUSPARSE_ENTRY const char* cusparseGetErrorName(cusparseStatus_t status) {
  static constexpr const char* kNames[] = {"CUSPARSE_STATUS_SUCCESS",
                                           "CUSPARSE_STATUS_NOT_INITIALIZED",
                                           "CUSPARSE_STATUS_ALLOC_FAILED",
                                           "CUSPARSE_STATUS_INVALID_VALUE",
                                           "CUSPARSE_STATUS_ARCH_MISMATCH",
                                           "CUSPARSE_STATUS_MAPPING_ERROR",
                                           "CUSPARSE_STATUS_EXECUTION_FAILED",
                                           "CUSPARSE_STATUS_INTERNAL_ERROR",
                                           "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
                                           "CUSPARSE_STATUS_ZERO_PIVOT",
                                           "CUSPARSE_STATUS_NOT_SUPPORTED",
                                           "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
  auto index = static_cast<size_t>(status);
  return index < sizeof(kNames) / sizeof(kNames[0]) ? kNames[index] : "unrecognized error code";
}
CUSPARSE_ENTRY const char* cusparseGetErrorString(cusparseStatus_t status) {
  static constexpr const char* kTexts[] = {"success",
                                           "the library was not initialized",
                                           "memory could not be allocated",
                                           "an argument has a value that is not allowed",
                                           "the device lacks what the function needs",
                                           "device memory could not be reached",
                                           "the function failed on the device",
                                           "an internal operation failed",
                                           "the matrix type is not supported",
                                           "a zero pivot was found",
                                           "the operation is not supported",
                                           "resources do not suffice"};
  auto index = static_cast<size_t>(status);
  return index < sizeof(kTexts) / sizeof(kTexts[0]) ? kTexts[index] : "an unknown status";
}

// The library that would log runs on the server.
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerSetCallback(cusparseLoggerCallback_t) {
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerSetFile(FILE*) {
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerOpenFile(const char*) {
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerSetLevel(int) {
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerSetMask(int) {
  return CUSPARSE_STATUS_SUCCESS;
}
CUSPARSE_ENTRY cusparseStatus_t cusparseLoggerForceDisable() {
  return CUSPARSE_STATUS_SUCCESS;
}
