// SPDX-License-Identifier: Apache-2.0
// A handle and its state: nothing here waits but the first handle, which asks for the library.
#include "client-shim/cublas/state.h"

#include "client-shim/thin/call.h"
#include "generated/proto/cublas_call.h"

#define CUBLAS_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

using farcall::cublas::Function;
using farcall::cublas::HandleState;
using farcall::cublas::kKind_cublasHandle_t;

namespace farcall::cublas {

namespace {

constexpr uintptr_t kWorkspaceAlignment = 256;

const void* ThisThread() {
  static thread_local char here;
  return &here;
}

HandleState* StateOf(cublasHandle_t handle) {
  return thin::StateOf<HandleState>(handle, kKind_cublasHandle_t);
}

// A setting that goes along with the next call, by its own setter.
template <typename T>
cublasStatus_t Set(cublasHandle_t handle, T HandleState::*member, T value, Function setter) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const T defaults = HandleState().*member;
  state->*member = value;
  state->Set(static_cast<uint16_t>(setter), &value, sizeof(value), &defaults);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Base>
cublasStatus_t Get(cublasHandle_t handle, T Base::*member, T* value) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = state->*member;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

void HandleState::BeforeCall(client::LibraryObject* object) {
  bool per_thread = stream == reinterpret_cast<void*>(2);
  bool users = workspace.memory != nullptr;
  bool moved = stream != sent_stream || (per_thread && sent_thread != ThisThread());
  if (workspace == sent_workspace && !(users && moved)) [[likely]]
    return;
  sent_workspace = workspace;
  sent_stream = stream;
  sent_thread = ThisThread();
  struct {
    LibraryHeader header{};
    uint64_t object = 0;
    uint64_t bytes = 0;
    uint64_t memory = 0;
  } record;
  record.header.library = static_cast<uint8_t>(LibraryId::kCublas);
  record.header.major = static_cast<uint8_t>(thin::kMajor);
  record.header.function =
      static_cast<uint16_t>(users ? Function::cublasSetWorkspace_v2 : Function::cublasSetStream_v2);
  record.object = object->id.load();
  record.bytes = workspace.bytes;
  record.memory = reinterpret_cast<uint64_t>(workspace.memory);
  size_t bytes = users ? sizeof(record) : offsetof(decltype(record), bytes);
  int status = 0;
  thin::Channel().post(&record, bytes, stream, client::StreamUse::kIfAlive, &status);
}

}  // namespace farcall::cublas

using farcall::cublas::Get;
using farcall::cublas::Set;
using farcall::cublas::StateOf;

CUBLAS_ENTRY cublasCreate_v2(cublasHandle_t* handle) {
  return static_cast<cublasStatus_t>(farcall::thin::MakeObject(
      Function::cublasCreate_v2, handle, kKind_cublasHandle_t, new HandleState));
}

CUBLAS_ENTRY cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  state->stream = streamId;
  state->workspace = {};
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* streamId) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (streamId == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *streamId = static_cast<cudaStream_t>(state->stream);
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                   size_t workspaceSizeInBytes) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<uintptr_t>(workspace) % farcall::cublas::kWorkspaceAlignment != 0 ||
      (workspace == nullptr && workspaceSizeInBytes != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  state->workspace = {workspace, workspaceSizeInBytes};
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE)
    return CUBLAS_STATUS_INVALID_VALUE;
  state->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  HandleState* state = StateOf(handle);
  if (state == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = static_cast<cublasPointerMode_t>(state->pointer_mode);
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  if (StateOf(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED)
    return CUBLAS_STATUS_INVALID_VALUE;
  return Set(handle, &HandleState::atomics, mode, Function::cublasSetAtomicsMode);
}
CUBLAS_ENTRY cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return Get(handle, &HandleState::atomics, mode);
}
CUBLAS_ENTRY cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (StateOf(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // Any mode with any of the flags that there are.
  if ((static_cast<unsigned>(mode) & ~0x1Fu) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  return Set(handle, &HandleState::math, mode, Function::cublasSetMathMode);
}
CUBLAS_ENTRY cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return Get(handle, &HandleState::math, mode);
}
CUBLAS_ENTRY cublasSetSmCountTarget(cublasHandle_t handle, int smCountTarget) {
  if (StateOf(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (smCountTarget < 0) return CUBLAS_STATUS_INVALID_VALUE;
  return Set(handle, &HandleState::sm_count_target, smCountTarget,
             Function::cublasSetSmCountTarget);
}
CUBLAS_ENTRY cublasGetSmCountTarget(cublasHandle_t handle, int* smCountTarget) {
  return Get(handle, &HandleState::sm_count_target, smCountTarget);
}

CUBLAS_ENTRY cublasSetEmulationStrategy(cublasHandle_t handle,
                                        cublasEmulationStrategy_t emulationStrategy) {
  return Set(handle, &HandleState::strategy, emulationStrategy,
             Function::cublasSetEmulationStrategy);
}
CUBLAS_ENTRY cublasGetEmulationStrategy(cublasHandle_t handle,
                                        cublasEmulationStrategy_t* emulationStrategy) {
  return Get(handle, &HandleState::strategy, emulationStrategy);
}
CUBLAS_ENTRY cublasSetEmulationSpecialValuesSupport(cublasHandle_t handle,
                                                    cudaEmulationSpecialValuesSupport mask) {
  return Set(handle, &HandleState::special_values, mask,
             Function::cublasSetEmulationSpecialValuesSupport);
}
CUBLAS_ENTRY cublasGetEmulationSpecialValuesSupport(cublasHandle_t handle,
                                                    cudaEmulationSpecialValuesSupport* mask) {
  return Get(handle, &HandleState::special_values, mask);
}
CUBLAS_ENTRY cublasSetFixedPointEmulationMantissaControl(
    cublasHandle_t handle, cudaEmulationMantissaControl mantissaControl) {
  return Set(handle, &HandleState::mantissa_control, mantissaControl,
             Function::cublasSetFixedPointEmulationMantissaControl);
}
CUBLAS_ENTRY cublasGetFixedPointEmulationMantissaControl(
    cublasHandle_t handle, cudaEmulationMantissaControl* mantissaControl) {
  return Get(handle, &HandleState::mantissa_control, mantissaControl);
}
CUBLAS_ENTRY cublasSetFixedPointEmulationMaxMantissaBitCount(cublasHandle_t handle,
                                                             int maxMantissaBitCount) {
  return Set(handle, &HandleState::max_mantissa_bits, maxMantissaBitCount,
             Function::cublasSetFixedPointEmulationMaxMantissaBitCount);
}
CUBLAS_ENTRY cublasGetFixedPointEmulationMaxMantissaBitCount(cublasHandle_t handle,
                                                             int* maxMantissaBitCount) {
  return Get(handle, &HandleState::max_mantissa_bits, maxMantissaBitCount);
}
CUBLAS_ENTRY cublasSetFixedPointEmulationMantissaBitOffset(cublasHandle_t handle,
                                                           int mantissaBitOffset) {
  return Set(handle, &HandleState::mantissa_bit_offset, mantissaBitOffset,
             Function::cublasSetFixedPointEmulationMantissaBitOffset);
}
CUBLAS_ENTRY cublasGetFixedPointEmulationMantissaBitOffset(cublasHandle_t handle,
                                                           int* mantissaBitOffset) {
  return Get(handle, &HandleState::mantissa_bit_offset, mantissaBitOffset);
}
CUBLAS_ENTRY cublasSetFixedPointEmulationMantissaBitCountPointer(cublasHandle_t handle,
                                                                 int* mantissaBitCount) {
  return Set(handle, &HandleState::mantissa_bit_count, mantissaBitCount,
             Function::cublasSetFixedPointEmulationMantissaBitCountPointer);
}
CUBLAS_ENTRY cublasGetFixedPointEmulationMantissaBitCountPointer(cublasHandle_t handle,
                                                                 int** mantissaBitCount) {
  return Get(handle, &HandleState::mantissa_bit_count, mantissaBitCount);
}
