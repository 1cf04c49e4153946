// SPDX-License-Identifier: Apache-2.0
// The calls whose scalars' sizes and places their descriptor tells; handles; facts.
#include <cublasLt.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "client-shim/cublaslt/capture.h"
#include "client-shim/thin/call.h"
#include "generated/proto/cublaslt_call.h"
#include "proto/library/library_descriptor.h"
#include "proto/library/library_sizes.h"

#define LT_ENTRY extern "C" __attribute__((visibility("default")))

using farcall::LibraryDescriptor;
using farcall::cublaslt::Function;
using farcall::cublaslt::kKind_cublasLtHandle_t;
using farcall::thin::Call;
using farcall::thin::DataTypeBytes;
using farcall::thin::MakeObject;
using farcall::thin::State;
using farcall::thin::VersionPart;

namespace {

constexpr uint16_t kBlasHandle = farcall::LibraryKind(farcall::LibraryId::kCublas, 1);
std::atomic<size_t> g_heuristics_capacity{8192};

// Where alpha and beta lie, by cublasLtPointerMode_t.
bool AlphaOnDevice(int mode) {
  return mode != CUBLASLT_POINTER_MODE_HOST;
}
bool BetaOnDevice(int mode) {
  return mode == CUBLASLT_POINTER_MODE_DEVICE || mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR;
}

// How alpha and beta are given.
struct Scalars {
  int mode = CUBLASLT_POINTER_MODE_HOST;
  uint64_t bytes = 0;  // of each, on the host
};

template <typename Opaque, typename Attribute>
Scalars ScalarsOf(Opaque* opaque, Attribute mode, Attribute type) {
  Scalars scalars;
  if (opaque == nullptr) return scalars;
  LibraryDescriptor descriptor(opaque, sizeof(*opaque));
  scalars.mode = descriptor.Value(mode, scalars.mode);
  scalars.bytes = DataTypeBytes(descriptor.Value(type, int{CUDA_R_32F}));
  return scalars;
}

template <typename Opaque>
void Descriptor(Call& call, Opaque* opaque, bool optional = false) {
  bool is_one = opaque != nullptr && LibraryDescriptor(opaque, sizeof(*opaque)).IsOne();
  if (!is_one && !(optional && opaque == nullptr)) call.Refuse(CUBLAS_STATUS_INVALID_VALUE);
  farcall::thin::Capture(call, opaque);
}

// The first use of an algorithm waits: whether its kernels can be loaded only the server learns,
// and a program that has asked for algorithms takes the next one if the call says so itself.
int RunAlgorithm(Call& call, const cublasLtMatmulAlgo_t* algo) {
  constexpr size_t kMaxTried = 1u << 14;
  static std::mutex* mutex = new std::mutex;
  static auto* tried = new std::set<std::string>;
  if (algo == nullptr) return call.Run();
  const std::string bytes(reinterpret_cast<const char*>(algo), sizeof(*algo));
  bool is_tried = false;
  {
    std::lock_guard lock(*mutex);
    is_tried = tried->size() >= kMaxTried || tried->contains(bytes);
  }
  if (is_tried) return call.Run();
  const int status = call.AskAnywhere();
  std::lock_guard lock(*mutex);
  if (status == 0) tried->insert(bytes);
  return status;
}

}  // namespace

LT_ENTRY cublasStatus_t cublasLtCreate(cublasLtHandle_t* lightHandle) {
  return static_cast<cublasStatus_t>(
      MakeObject(Function::cublasLtCreate, lightHandle, kKind_cublasLtHandle_t, new State));
}

LT_ENTRY cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle,
                                       cublasLtMatmulDesc_t computeDesc, const void* alpha,
                                       const void* A, cublasLtMatrixLayout_t Adesc, const void* B,
                                       cublasLtMatrixLayout_t Bdesc, const void* beta,
                                       const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
                                       cublasLtMatrixLayout_t Ddesc,
                                       const cublasLtMatmulAlgo_t* algo, void* workspace,
                                       size_t workspaceSizeInBytes, cudaStream_t stream) {
  Call call(Function::cublasLtMatmul);
  call.Object(lightHandle, {kKind_cublasLtHandle_t, kBlasHandle});
  call.Value(workspaceSizeInBytes);
  call.Stream(stream);
  Descriptor(call, computeDesc);
  auto [mode, scalar_bytes] =
      ScalarsOf(computeDesc, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_MATMUL_DESC_SCALE_TYPE);
  call.ScalarAt(alpha, scalar_bytes, AlphaOnDevice(mode));
  call.Device(A);
  Descriptor(call, Adesc);
  call.Device(B);
  Descriptor(call, Bdesc);
  call.ScalarAt(mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO ? nullptr : beta,
                scalar_bytes, BetaOnDevice(mode));
  call.Device(C);
  Descriptor(call, Cdesc, true);
  call.Device(D);
  Descriptor(call, Ddesc);
  call.In(algo, sizeof(*algo));
  call.Device(workspace);
  return static_cast<cublasStatus_t>(RunAlgorithm(call, algo));
}

LT_ENTRY cublasStatus_t cublasLtMatrixTransform(
    cublasLtHandle_t lightHandle, cublasLtMatrixTransformDesc_t transformDesc, const void* alpha,
    const void* A, cublasLtMatrixLayout_t Adesc, const void* beta, const void* B,
    cublasLtMatrixLayout_t Bdesc, void* C, cublasLtMatrixLayout_t Cdesc, cudaStream_t stream) {
  Call call(Function::cublasLtMatrixTransform);
  call.Object(lightHandle, {kKind_cublasLtHandle_t, kBlasHandle});
  call.Stream(stream);
  Descriptor(call, transformDesc);
  auto [mode, scalar_bytes] = ScalarsOf(transformDesc, CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE,
                                        CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE);
  call.ScalarAt(alpha, scalar_bytes, AlphaOnDevice(mode));
  call.Device(A);
  Descriptor(call, Adesc);
  call.ScalarAt(beta, scalar_bytes, BetaOnDevice(mode));
  call.Device(B);
  Descriptor(call, Bdesc, true);
  call.Device(C);
  if (A == nullptr || C == nullptr) call.Doubt();
  Descriptor(call, Cdesc);
  return static_cast<cublasStatus_t>(call.Run());
}

LT_ENTRY size_t cublasLtGetVersion() {
  return size_t{10000} * VersionPart(0) + size_t{100} * VersionPart(1) + VersionPart(2);
}
LT_ENTRY size_t cublasLtGetCudartVersion() {
  return size_t{1000} * VersionPart(0) + size_t{10} * VersionPart(1);
}
LT_ENTRY cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL)
    return CUBLAS_STATUS_INVALID_VALUE;
  *value = VersionPart(type);
  return CUBLAS_STATUS_SUCCESS;
}

// Answers are kept by content here; the number is only remembered.
LT_ENTRY cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (capacity == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *capacity = g_heuristics_capacity.load();
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity) {
  g_heuristics_capacity.store(capacity);
  return CUBLAS_STATUS_SUCCESS;
}
// Of the CPU that runs the real library, which is the server's: nothing is masked.
LT_ENTRY unsigned cublasLtDisableCpuInstructionsSetMask(unsigned) {
  return 0;
}

LT_ENTRY cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t) {
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtLoggerSetFile(FILE*) {
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtLoggerOpenFile(const char*) {
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtLoggerSetLevel(int) {
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtLoggerSetMask(int) {
  return CUBLAS_STATUS_SUCCESS;
}
LT_ENTRY cublasStatus_t cublasLtLoggerForceDisable() {
  return CUBLAS_STATUS_SUCCESS;
}
