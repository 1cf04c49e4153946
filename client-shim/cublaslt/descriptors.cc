// SPDX-License-Identifier: Apache-2.0
// Descriptors, layouts and preferences: data of the client's, in the room of the opaque structs,
// which a program may also have on its stack.
#include <cublasLt.h>

#include <cstring>
#include <new>

#include "proto/library/library_descriptor.h"

#define LT_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

namespace {

using farcall::LibraryDescriptor;

// An attribute's size, and what it is until it is set.
struct Attribute {
  uint8_t id, bytes;
  int64_t initial;
};

constexpr Attribute kMatmul[] = {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_POINTER_MODE, 4, CUBLASLT_POINTER_MODE_HOST},
                                 {CUBLASLT_MATMUL_DESC_TRANSA, 4, CUBLAS_OP_N},
                                 {CUBLASLT_MATMUL_DESC_TRANSB, 4, CUBLAS_OP_N},
                                 {CUBLASLT_MATMUL_DESC_TRANSC, 4, CUBLAS_OP_N},
                                 {CUBLASLT_MATMUL_DESC_FILL_MODE, 4, CUBLAS_FILL_MODE_FULL},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE, 4, CUBLASLT_EPILOGUE_DEFAULT},
                                 {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4, -1},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, 0},
                                 {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4, -1},
                                 {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, 8, 0},
                                 {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, 4, 0},
                                 {CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, 8, 0}};

constexpr Attribute kLayout[] = {{CUBLASLT_MATRIX_LAYOUT_TYPE, 4, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_ORDER, 4, CUBLASLT_ORDER_COL},
                                 {CUBLASLT_MATRIX_LAYOUT_ROWS, 8, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_COLS, 8, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_LD, 8, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, 1},
                                 {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 8, 0},
                                 {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 4, 0}};

constexpr Attribute kTransform[] = {{CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, 4, 0},
                                    {CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, 4, 0},
                                    {CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, 4, 0},
                                    {CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, 4, 0}};

constexpr Attribute kPreference[] = {
    {CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, 0},
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8, 0},
    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, CUBLASLT_REDUCTION_SCHEME_MASK},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4, 0},
    {CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, -1}};

constexpr Attribute kEmulation[] = {
    {CUBLASLT_EMULATION_DESC_STRATEGY, 4, 0},
    {CUBLASLT_EMULATION_DESC_SPECIAL_VALUES_SUPPORT, 4, 0xFFFF},
    {CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_CONTROL, 4, 0},
    {CUBLASLT_EMULATION_DESC_FIXEDPOINT_MAX_MANTISSA_BIT_COUNT, 4, 0},
    {CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_OFFSET, 4, 0},
    {CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER, 8, 0}};

template <size_t kCount>
const Attribute* Find(const Attribute (&table)[kCount], int id) {
  for (const Attribute& attribute : table)
    if (attribute.id == id) return &attribute;
  return nullptr;
}

template <typename Opaque>
LibraryDescriptor Of(Opaque* opaque) {
  return {opaque, sizeof(Opaque)};
}

template <typename Opaque, size_t kCount>
cublasStatus_t Set(const Attribute (&table)[kCount], Opaque* opaque, int id, const void* buf,
                   size_t bytes) {
  const Attribute* attribute = Find(table, id);
  if (opaque == nullptr || buf == nullptr || !Of(opaque).IsOne())
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == nullptr || bytes != attribute->bytes) return CUBLAS_STATUS_INVALID_VALUE;
  return Of(opaque).Set(attribute->id, buf, attribute->bytes) ? CUBLAS_STATUS_SUCCESS
                                                              : CUBLAS_STATUS_NOT_SUPPORTED;
}

template <typename Opaque, size_t kCount>
cublasStatus_t Get(const Attribute (&table)[kCount], Opaque* opaque, int id, void* buf,
                   size_t bytes, size_t* written) {
  const Attribute* attribute = Find(table, id);
  if (opaque == nullptr || !Of(opaque).IsOne()) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 && written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0 && (buf == nullptr || bytes != attribute->bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = attribute->bytes;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  const void* found = Of(opaque).Get(attribute->id, attribute->bytes);
  std::memcpy(buf, found == nullptr ? &attribute->initial : found, attribute->bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque, typename Fill>
cublasStatus_t Init(Opaque* opaque, size_t bytes, Fill fill) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof(Opaque)) return CUBLAS_STATUS_ALLOC_FAILED;
  LibraryDescriptor descriptor = Of(opaque);
  descriptor.Clear();
  fill(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque, typename Fill>
cublasStatus_t Create(Opaque** out, Fill fill) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto* opaque = new (std::nothrow) Opaque;
  if (opaque == nullptr) return CUBLAS_STATUS_ALLOC_FAILED;
  *out = opaque;
  return Init(opaque, sizeof(Opaque), fill);
}

template <typename Opaque>
cublasStatus_t Destroy(Opaque* opaque) {
  if (opaque == nullptr) return CUBLAS_STATUS_SUCCESS;
  if (!Of(opaque).IsOne()) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(opaque, 0, sizeof(*opaque));
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

auto MatmulOf(cublasComputeType_t compute, cudaDataType_t scale) {
  return [=](LibraryDescriptor& descriptor) {
    descriptor.Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, 4);
    descriptor.Set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale, 4);
  };
}
auto LayoutOf(cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
  return [=](LibraryDescriptor& descriptor) {
    descriptor.Set(CUBLASLT_MATRIX_LAYOUT_TYPE, &type, 4);
    descriptor.Set(CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8);
    descriptor.Set(CUBLASLT_MATRIX_LAYOUT_COLS, &cols, 8);
    descriptor.Set(CUBLASLT_MATRIX_LAYOUT_LD, &ld, 8);
  };
}
auto TransformOf(cudaDataType scale) {
  return [=](LibraryDescriptor& descriptor) {
    descriptor.Set(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, &scale, 4);
  };
}
void Nothing(LibraryDescriptor&) {}

}  // namespace

#define ATTRIBUTES(kind, handle, attributes, table)                                      \
  LT_ENTRY cublasLt##kind##SetAttribute(handle object, attributes attr, const void* buf, \
                                        size_t sizeInBytes) {                            \
    return Set(table, object, attr, buf, sizeInBytes);                                   \
  }                                                                                      \
  LT_ENTRY cublasLt##kind##GetAttribute(handle object, attributes attr, void* buf,       \
                                        size_t sizeInBytes, size_t* sizeWritten) {       \
    return Get(table, object, attr, buf, sizeInBytes, sizeWritten);                      \
  }                                                                                      \
  LT_ENTRY cublasLt##kind##Destroy(handle object) {                                      \
    return Destroy(object);                                                              \
  }

ATTRIBUTES(MatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, kMatmul)
ATTRIBUTES(MatrixLayout, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, kLayout)
ATTRIBUTES(MatrixTransformDesc, cublasLtMatrixTransformDesc_t,
           cublasLtMatrixTransformDescAttributes_t, kTransform)
ATTRIBUTES(MatmulPreference, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
           kPreference)
ATTRIBUTES(EmulationDesc, cublasLtEmulationDesc_t, cublasLtEmulationDescAttributes_t, kEmulation)

LT_ENTRY cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmulDesc, cublasComputeType_t computeType,
                                  cudaDataType_t scaleType) {
  return Create(matmulDesc, MatmulOf(computeType, scaleType));
}
LT_ENTRY cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmulDesc, size_t size,
                                         cublasComputeType_t computeType,
                                         cudaDataType_t scaleType) {
  return Init(matmulDesc, size, MatmulOf(computeType, scaleType));
}
LT_ENTRY cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matLayout, cudaDataType type,
                                    uint64_t rows, uint64_t cols, int64_t ld) {
  return Create(matLayout, LayoutOf(type, rows, cols, ld));
}
LT_ENTRY cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t matLayout, size_t size,
                                           cudaDataType type, uint64_t rows, uint64_t cols,
                                           int64_t ld) {
  return Init(matLayout, size, LayoutOf(type, rows, cols, ld));
}
LT_ENTRY cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t* transformDesc,
                                           cudaDataType scaleType) {
  return Create(transformDesc, TransformOf(scaleType));
}
LT_ENTRY cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t transformDesc,
                                                  size_t size, cudaDataType scaleType) {
  return Init(transformDesc, size, TransformOf(scaleType));
}
LT_ENTRY cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* pref) {
  return Create(pref, Nothing);
}
LT_ENTRY cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size) {
  return Init(pref, size, Nothing);
}
LT_ENTRY cublasLtEmulationDescCreate(cublasLtEmulationDesc_t* emulationDesc) {
  return Create(emulationDesc, Nothing);
}
LT_ENTRY cublasLtEmulationDescInit_internal(cublasLtEmulationDesc_t emulationDesc, size_t size) {
  return Init(emulationDesc, size, Nothing);
}
